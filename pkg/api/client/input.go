package client

import (
	"context"
	"net/http"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Input moves the pointer and presses buttons and keys. Each call is one batch;
// Do sends several actions in one.
type Input struct{ d *Desktop }

// Do does actions in order up to the first failure. The reply is valid also
// when the error is that of an action: it says which were done.
func (i *Input) Do(ctx context.Context, batch api.InputBatch) (api.InputReply, error) {
	reply, err := wire.Fetch[api.InputReply](ctx, i.d.c.server, wire.Call{Method: http.MethodPost, Path: i.d.path("/input"), JSON: batch})
	if err != nil {
		return reply, err
	}
	if reply.Error != nil {
		return reply, reply.Error
	}
	return reply, nil
}

// Act does actions on screen coordinates.
func (i *Input) Act(ctx context.Context, actions ...api.Action) (api.InputReply, error) {
	return i.Do(ctx, api.InputBatch{Actions: actions})
}

func (i *Input) one(ctx context.Context, a api.Action) error {
	_, err := i.Act(ctx, a)
	return err
}

// Move moves the pointer.
func (i *Input) Move(ctx context.Context, x, y int) error {
	return i.one(ctx, api.Action{Kind: "move", X: &x, Y: &y})
}

// ClickOptions changes a click. Zero: once, left, no keys held.
type ClickOptions struct {
	Button string   // left, middle, right, back, forward
	Count  int      // 2: a double click
	Mods   []string // keys held meanwhile, e.g. ctrl
}

// Click clicks at a point.
func (i *Input) Click(ctx context.Context, x, y int, opts ClickOptions) error {
	return i.one(ctx, api.Action{Kind: "click", X: &x, Y: &y, Button: opts.Button, Count: opts.Count, Mods: opts.Mods})
}

// Drag presses a button at the first point, moves through the others in the
// given time (0: the server's default) and releases it at the last.
func (i *Input) Drag(ctx context.Context, path [][2]int, button string, took time.Duration) error {
	return i.one(ctx, api.Action{Kind: "drag", Path: path, Button: button, DurationMS: int(took.Milliseconds())})
}

// Scroll turns the wheel at a point: dx steps to the right, dy steps down.
func (i *Input) Scroll(ctx context.Context, at api.Point, dx, dy int) error {
	return i.one(ctx, api.Action{Kind: "scroll", X: &at.X, Y: &at.Y, DX: dx, DY: dy})
}

// Key presses a chord such as "ctrl+shift+t", times over.
func (i *Input) Key(ctx context.Context, chord string, times int) error {
	return i.one(ctx, api.Action{Kind: "key", Keys: chord, Repeat: times})
}

// Hold holds a chord for a time, with repeats at a rate (0: none).
func (i *Input) Hold(ctx context.Context, chord string, d time.Duration, perSecond int) error {
	return i.one(ctx, api.Action{Kind: "hold", Keys: chord, DurationMS: int(d.Milliseconds()), PerSecond: perSecond})
}

// Type types text.
func (i *Input) Type(ctx context.Context, text string) error {
	return i.one(ctx, api.Action{Kind: "text", Text: text})
}

// Release releases every key and button that this holder keeps pressed.
func (i *Input) Release(ctx context.Context) error {
	return i.one(ctx, api.Action{Kind: "release"})
}
