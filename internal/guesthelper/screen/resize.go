//go:build linux

package screen

import (
	"context"
	"fmt"
	"time"

	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	minSide    = 64 // pixels
	maxSide    = 8192
	mmPerInch  = 25.4
	defaultDPI = 96.0
	settleSize = 3 * time.Second // until the root window has its new size
)

// New looks up the extensions that d's server has. It must come before
// anything else reads from d's connection in earnest: initialising an extension
// writes tables of the X library.
func New(d *display.Display) *Screen {
	s := &Screen{d: d}
	s.hasShm = shm.Init(d.Conn) == nil
	if xfixes.Init(d.Conn) == nil {
		_, err := xfixes.QueryVersion(d.Conn, 4, 0).Reply()
		s.hasCursor = err == nil
	}
	if randr.Init(d.Conn) == nil {
		v, err := randr.QueryVersion(d.Conn, 1, 3).Reply()
		s.hasRandr = err == nil && (v.MajorVersion > 1 || v.MinorVersion >= 3)
	}
	return s
}

// CanResize says whether Resize has a chance on this server.
func (s *Screen) CanResize() bool { return s.hasRandr }

// Resize sets the screen's size: through a mode that the output has, else
// through a new one. It returns the size as it became. CodeInvalid for a size
// out of range, CodeUnsupported on a server that cannot.
func (s *Screen) Resize(ctx context.Context, want guest.Screen) (guest.Screen, error) {
	if min(want.Width, want.Height) < minSide || max(want.Width, want.Height) > maxSide {
		return guest.Screen{}, &guest.Error{
			Code:    guest.CodeInvalid,
			Message: fmt.Sprintf("screen of %dx%d: each side must be %d to %d pixels", want.Width, want.Height, minSide, maxSide),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.Size()
	if err != nil || (now.Width == want.Width && now.Height == want.Height) {
		return now, err
	}
	if !s.hasRandr {
		return now, unsupported("the X server lacks RandR 1.3")
	}
	if err := s.resize(want.Width, want.Height); err != nil {
		return now, err
	}
	ok, err := s.d.Until(ctx, settleSize, func() (bool, error) {
		now, err = s.Size()
		return now.Width == want.Width && now.Height == want.Height, err
	})
	if err == nil && !ok {
		err = unsupported(fmt.Sprintf("the X server kept %dx%d", now.Width, now.Height))
	}
	return now, err
}

func unsupported(why string) error {
	return &guest.Error{Code: guest.CodeUnsupported, Message: "set screen size: " + why}
}

func (s *Screen) resize(w, h int) error {
	res, err := randr.GetScreenResources(s.d.Conn, s.d.Root).Reply()
	if err != nil {
		return display.Wrap(err, "read screen resources")
	}
	limits, err := randr.GetScreenSizeRange(s.d.Conn, s.d.Root).Reply()
	if err != nil {
		return display.Wrap(err, "read screen limits")
	}
	if w < int(limits.MinWidth) || h < int(limits.MinHeight) || w > int(limits.MaxWidth) || h > int(limits.MaxHeight) {
		return unsupported(fmt.Sprintf("the X server takes %dx%d to %dx%d", limits.MinWidth, limits.MinHeight, limits.MaxWidth, limits.MaxHeight))
	}
	out, info, err := s.output(res)
	if err != nil {
		return err
	}
	mode, err := s.mode(res, out, info, w, h)
	if err != nil {
		return err
	}
	return s.apply(res, out, info.Crtc, mode, guest.Screen{Width: w, Height: h})
}

// output finds the output in use: connected, with a CRTC.
func (s *Screen) output(res *randr.GetScreenResourcesReply) (randr.Output, *randr.GetOutputInfoReply, error) {
	for _, o := range res.Outputs {
		info, err := randr.GetOutputInfo(s.d.Conn, o, res.ConfigTimestamp).Reply()
		if err != nil {
			return 0, nil, display.Wrap(err, "read output")
		}
		if info.Connection == randr.ConnectionConnected && info.Crtc == 0 && len(info.Crtcs) > 0 {
			info.Crtc = info.Crtcs[0]
		}
		if info.Connection == randr.ConnectionConnected && info.Crtc != 0 {
			return o, info, nil
		}
	}
	return 0, nil, unsupported("the X server has no connected output")
}

func (s *Screen) mode(res *randr.GetScreenResourcesReply, out randr.Output, info *randr.GetOutputInfoReply, w, h int) (randr.Mode, error) {
	sizes := map[randr.Mode]bool{}
	name := fmt.Sprintf("%dx%d_deskfork", w, h)
	var ours randr.Mode
	names := res.Names
	for _, m := range res.Modes {
		n := min(int(m.NameLen), len(names))
		if string(names[:n]) == name {
			ours = randr.Mode(m.Id)
		}
		names = names[n:]
		sizes[randr.Mode(m.Id)] = int(m.Width) == w && int(m.Height) == h
	}
	for _, m := range info.Modes {
		if sizes[m] {
			return m, nil
		}
	}
	if ours == 0 {
		c := CVT(w, h)
		r, err := randr.CreateMode(s.d.Conn, s.d.Root, randr.ModeInfo{
			Width: uint16(c.Width), HsyncStart: uint16(c.HSyncStart), HsyncEnd: uint16(c.HSyncEnd), Htotal: uint16(c.HTotal),
			Height: uint16(c.Height), VsyncStart: uint16(c.VSyncStart), VsyncEnd: uint16(c.VSyncEnd), Vtotal: uint16(c.VTotal),
			DotClock: uint32(c.ClockHz), NameLen: uint16(len(name)),
			ModeFlags: randr.ModeFlagHsyncNegative | randr.ModeFlagVsyncPositive,
		}, name).Reply()
		if err != nil {
			return 0, unsupported("the X server refuses a new mode: " + err.Error())
		}
		ours = r.Mode
	}
	if err := randr.AddOutputModeChecked(s.d.Conn, out, ours).Check(); err != nil {
		return 0, unsupported("the output refuses a new mode: " + err.Error())
	}
	return ours, nil
}

// apply switches the CRTC. A screen may never be smaller than what a CRTC
// shows, so it is switched off meanwhile; nobody else draws in between.
func (s *Screen) apply(res *randr.GetScreenResourcesReply, out randr.Output, crtc randr.Crtc, mode randr.Mode, to guest.Screen) error {
	conn := s.d.Conn
	old, err := randr.GetCrtcInfo(conn, crtc, res.ConfigTimestamp).Reply()
	if err != nil {
		return display.Wrap(err, "read screen mode")
	}
	before, err := s.Size()
	if err != nil {
		return err
	}
	xproto.GrabServer(conn)
	defer xproto.UngrabServer(conn)
	set := func(m randr.Mode, outs []randr.Output) error {
		r, err := randr.SetCrtcConfig(conn, crtc, xproto.TimeCurrentTime, res.ConfigTimestamp,
			0, 0, m, randr.RotationRotate0, outs).Reply()
		if err != nil {
			return unsupported("the X server refuses the mode: " + err.Error())
		}
		if r.Status != randr.SetConfigSuccess {
			return unsupported(fmt.Sprintf("the X server refuses the mode: status %d", r.Status))
		}
		return nil
	}
	size := func(w, h int) error {
		mm := func(px int) uint32 { return uint32(float64(px)*mmPerInch/defaultDPI + 0.5) }
		err := randr.SetScreenSizeChecked(conn, s.d.Root, uint16(w), uint16(h), mm(w), mm(h)).Check()
		if err != nil {
			return unsupported("the X server refuses the size: " + err.Error())
		}
		return nil
	}
	if err := set(0, nil); err != nil {
		return err
	}
	err = size(to.Width, to.Height)
	if err == nil {
		err = set(mode, []randr.Output{out})
	}
	if err == nil || old.Mode == 0 {
		return err
	}
	// Undo: the old size with the old mode, which worked a moment ago.
	_ = size(before.Width, before.Height)
	_ = set(old.Mode, old.Outputs)
	return err
}
