//go:build linux

package guesthelper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/pkg/guest"
)

// reply is what an operation gives back.
type reply struct {
	result any    // nil: none
	binary []byte // nil: none
}

// op serves one operation.
type op func(ctx context.Context, m guest.HelperMessage) (reply, error)

// ops lists what the session serves.
func (s *Session) ops() map[string]op {
	return map[string]op{
		guest.OpReady: with(func(context.Context, none) (any, error) { return s.ready() }),
		guest.OpScreen: with(func(context.Context, none) (any, error) {
			return s.screen.Size()
		}),
		guest.OpSetScreen: with(func(ctx context.Context, p guest.Screen) (any, error) {
			return s.screen.Resize(ctx, p)
		}),
		guest.OpScreenshot: s.screenshot,
		guest.OpSetKeyboard: with(func(ctx context.Context, p guest.Keyboard) (any, error) {
			return nil, s.layout.Set(ctx, p)
		}),
		guest.OpPointer: with(func(context.Context, none) (any, error) {
			in, err := s.player()
			if err != nil {
				return nil, err
			}
			return in.Pointer()
		}),
		guest.OpInput: with(func(ctx context.Context, p guest.InputBatch) (any, error) {
			in, err := s.player()
			if err != nil {
				return nil, err
			}
			return in.Play(ctx, p)
		}),
		guest.OpClipboardGet: s.clipboardGet,
		guest.OpClipboardSet: s.clipboardSet,
		guest.OpClipboardTypes: with(func(ctx context.Context, _ none) (any, error) {
			types, err := s.clip.Types(ctx)
			return guest.ClipboardTargets{Types: types}, err
		}),
		guest.OpWindows: with(func(context.Context, none) (any, error) {
			ws, err := s.windows.List()
			return guest.WindowList{Windows: ws}, err
		}),
		guest.OpWindow: with(func(ctx context.Context, p guest.WindowOp) (any, error) {
			return s.windows.Change(ctx, p)
		}),
		guest.OpLaunch: with(func(ctx context.Context, p guest.Launch) (any, error) {
			return s.start(ctx, p)
		}),
		guest.OpPark: with(func(ctx context.Context, p guest.Park) (any, error) {
			return s.parker.Park(ctx, p)
		}),
	}
}

// none are the parameters of an operation without.
type none struct{}

// with decodes parameters for f.
func with[P any](f func(context.Context, P) (any, error)) op {
	return func(ctx context.Context, m guest.HelperMessage) (reply, error) {
		p, err := decode[P](m.Params)
		if err != nil {
			return reply{}, err
		}
		r, err := f(ctx, p)
		return reply{result: r}, err
	}
}

// decode reads parameters; none at all are their zero value, and members that
// this version does not know are passed over.
func decode[P any](raw json.RawMessage) (P, error) {
	var p P
	if len(raw) == 0 {
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	err := d.Decode(&p)
	if err == nil {
		if _, e := d.Token(); !errors.Is(e, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return p, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("decode parameters: %v", err)}
	}
	return p, nil
}

func (s *Session) screenshot(ctx context.Context, m guest.HelperMessage) (reply, error) {
	p, err := decode[guest.ScreenshotParams](m.Params)
	if err != nil {
		return reply{}, err
	}
	shot, err := s.screen.Shot(ctx, p)
	if err != nil {
		return reply{}, err
	}
	return reply{result: shot, binary: shot.Data}, nil
}

func (s *Session) clipboardGet(ctx context.Context, m guest.HelperMessage) (reply, error) {
	p, err := decode[guest.ClipboardParams](m.Params)
	if err != nil {
		return reply{}, err
	}
	c, err := s.clip.Get(ctx, p.Type)
	if err != nil {
		return reply{}, err
	}
	data := c.Data
	if data == nil {
		data = []byte{}
	}
	return reply{result: guest.Clipboard{Type: c.Type}, binary: data}, nil
}

func (s *Session) clipboardSet(ctx context.Context, m guest.HelperMessage) (reply, error) {
	p, err := decode[guest.Clipboard](m.Params)
	if err != nil {
		return reply{}, err
	}
	if m.Binary != nil {
		p.Data = m.Binary
	}
	return reply{}, s.clip.Set(ctx, p)
}
