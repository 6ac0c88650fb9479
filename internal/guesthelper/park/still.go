//go:build linux

package park

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/frost"
	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// standing is a parked program that stands still.
type standing struct {
	window xproto.Window
	still  *frost.Still
}

// freeze has what is parked in a group stand still, and leaves word of how to
// thaw it.
func (p *Parker) freeze(ctx context.Context, group *frost.Group, w xproto.Window) error {
	err := xproto.ChangeWindowAttributesChecked(p.d.Conn, w, xproto.CwEventMask, []uint32{xproto.EventMaskStructureNotify}).Check()
	if err != nil {
		return display.Wrap(err, "watch the parked window")
	}
	still, err := group.Freeze(ctx)
	if err != nil {
		return err
	}
	if err = os.WriteFile(p.mark, []byte(group.Switch()+"\n"), 0o600); err == nil {
		select {
		case p.stands <- standing{w, still}:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	still.Close()
	return errors.Join(fmt.Errorf("leave word of what stands still: %w", err), p.thaw())
}

// Run thaws what stands still as soon as it is needed by somebody who did not ask
// for it: its window is on the screen, or a process of it was killed. It returns
// when ctx ends; then nothing stands still any more.
func (p *Parker) Run(ctx context.Context) error {
	for {
		select {
		case s := <-p.stands:
			p.guard(ctx, s)
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Parker) guard(ctx context.Context, s standing) {
	defer s.still.Close()
	shown, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := p.d.Subscribe(func(ev xgb.Event) {
		if m, ok := ev.(xproto.MapNotifyEvent); ok && m.Window == s.window {
			cancel()
		}
	})
	defer stop()
	err := s.still.Moves(shown)
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := errors.Join(s.still.Thaw(), p.thaw()); e != nil { // whatever became of the mark
		p.log.Error("thaw what is parked", "err", e, "because", err)
	}
}

// frozen returns what thaws the parked program; "" when it does not stand still.
func (p *Parker) frozen() string {
	b, err := os.ReadFile(p.mark)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// thaw lets what is parked go on, for good.
func (p *Parker) thaw() error {
	file := p.frozen()
	if file == "" {
		return nil
	}
	if err := cgroup.Thaw(filepath.Dir(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("thaw what is parked: %w", err)
	}
	if err := os.Truncate(p.mark, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mark what was thawed: %w", err)
	}
	return nil
}

// wake thaws what is parked. If it was asked to end while it stood still, wake
// waits until it has, for a while: its window would go in the next moment.
func (p *Parker) wake(ctx context.Context, pid int) error {
	ends := p.frozen() != "" && doomed(pid)
	if err := p.thaw(); err != nil || !ends {
		return err
	}
	const limit = 10 * time.Second
	_, err := p.d.Until(ctx, limit, func() (bool, error) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	})
	return err
}

// doomed reports whether a signal waits for a process that programs end at.
func doomed(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return err == nil && pending(b)&(bit(syscall.SIGTERM)|bit(syscall.SIGINT)|bit(syscall.SIGHUP)|bit(syscall.SIGQUIT)) != 0
}

func bit(s syscall.Signal) uint64 { return 1 << (s - 1) }

// pending reads the signals that wait for a process or its first thread from what
// proc(5) says of /proc/PID/status.
func pending(status []byte) (set uint64) {
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if n := string(name); n == "SigPnd" || n == "ShdPnd" {
			bits, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
			if err == nil {
				set |= bits
			}
		}
	}
	return set
}
