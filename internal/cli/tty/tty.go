// Package tty is the terminal that a command line was started from.
package tty

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/deskfork/deskfork/internal/cli/attach"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Terminal is one terminal that is read and written.
type Terminal struct{ in, out *os.File }

var _ attach.Terminal = Terminal{}

// New finds the terminal of two files; ok is false when one of them is none.
func New(in, out *os.File) (_ Terminal, ok bool) {
	return Terminal{in: in, out: out}, term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Raw implements attach.Terminal.
func (t Terminal) Raw() (restore func() error, _ error) {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(int(t.in.Fd()), state) }, nil
}

// Sizes implements attach.Terminal.
func (t Terminal) Sizes(ctx context.Context) <-chan client.Size {
	sizes, changed := make(chan client.Size), make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() { // ends with ctx; who reads the sizes needs none after that
		defer signal.Stop(changed)
		for {
			if cols, rows, err := term.GetSize(int(t.out.Fd())); err == nil && cols > 0 && rows > 0 {
				select {
				case sizes <- client.Size{Cols: uint16(cols), Rows: uint16(rows)}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}
