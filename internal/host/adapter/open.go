package adapter

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/pkg/desktop/capture"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/vm"
)

// pace is how patient the parts of a desktop are under an accelerator.
type pace struct {
	link     float64       // factor of the guest client's waits
	display  time.Duration // rfb.Config.Timeout
	keys     int           // presses a second
	readBack time.Duration
	confirm  time.Duration
}

func paceOf(a vm.Accelerator) pace {
	if a.TimeoutScale() == 1 {
		return pace{link: 1, display: 10 * time.Second, keys: 30, readBack: 200 * time.Millisecond, confirm: 200 * time.Millisecond}
	}
	return pace{link: 3, display: 30 * time.Second, keys: 15, readBack: time.Second, confirm: 600 * time.Millisecond}
}

// Opener makes the real parts of a desktop: guestd over the machine's private
// network, pixels and input over its display. It starts nothing.
func Opener(cfg reach.Config) (*live.Desktop, error) {
	p := paceOf(cfg.Machine.Info().Accelerator)
	c := client.New(client.Config{
		Dial:  func(ctx context.Context) (net.Conn, error) { return cfg.Machine.DialGuest(ctx, guest.Port) },
		Token: cfg.Tokens[0], Others: cfg.Tokens[1:], Logger: cfg.Logger, Scale: p.link, Version: cfg.Version,
	})
	display, err := rfb.New(rfb.Config{Dial: cfg.Machine.DialDisplay, Timeout: p.display, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	show, err := stream.New(stream.Config{Source: display, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	d := Guest(c, display.Touch, func(ctx context.Context) error { return both(ctx, display.Run, show.Run) })
	keys := layout{Session: d.Session, other: &atomic.Bool{}}
	keys.other.Store(cfg.Keyboard != "" && cfg.Keyboard != plainLayout)
	d.Session = keys
	return d, addDisplay(d, c.Desktop, show, inject.Config{
		Source: display, Input: display, Helper: helper{c.Desktop}, Rate: p.keys, ReadBack: p.readBack, Confirm: p.confirm,
		ByMeaning: keys.other.Load,
	})
}

// addDisplay adds picture and input to the parts of a desktop.
func addDisplay(d *live.Desktop, g *client.Desktop, show *stream.Stream, cfg inject.Config) error {
	camera, err := capture.New(capture.Config{Source: cfg.Source})
	if err != nil {
		return err
	}
	hand, err := inject.New(cfg)
	if err != nil {
		return fmt.Errorf("prepare input: %w", err)
	}
	d.Screen = screen{camera: camera, source: cfg.Source, pointer: g.Pointer}
	d.Input = &input{hand: hand, camera: camera, source: cfg.Source, turn: make(chan struct{}, 1)}
	d.Display = live.Display{Source: cfg.Source, Input: &hands{Input: cfg.Input, helper: cfg.Helper}, Stream: show}
	return nil
}

// both runs two things until ctx ends or the first has, and answers when both
// have ended.
func both(ctx context.Context, first, second func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var other error
	var wait sync.WaitGroup
	wait.Go(func() { other = second(ctx) })
	err := first(ctx)
	cancel()
	wait.Wait()
	if err == nil {
		err = other
	}
	return err
}
