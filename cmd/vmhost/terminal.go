package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// terminal is the one that vmhost was started from.
type terminal struct{ in, out *os.File }

var _ cli.Terminal = terminal{}

// Raw implements cli.Terminal.
func (t terminal) Raw() (restore func() error, _ error) {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(int(t.in.Fd()), state) }, nil
}

// Sizes implements cli.Terminal.
func (t terminal) Sizes(ctx context.Context) <-chan client.Size {
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
