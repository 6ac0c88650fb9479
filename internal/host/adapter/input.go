package adapter

import (
	"context"
	"errors"
	"fmt"
	"image"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/capture"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
)

// releaseLimit bounds letting go of keys after a failure.
const releaseLimit = 5 * time.Second

// input plays the API's actions. Batches take turns.
type input struct {
	hand   *inject.Injector
	camera *capture.Camera
	source desktop.Source
	turn   chan struct{} // holds a token while a batch is played
}

var _ live.Input = (*input)(nil)

// Do implements live.Input. After a failure nothing is held down.
func (in *input) Do(ctx context.Context, b api.InputBatch) (api.InputReply, error) {
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return api.InputReply{}, fmt.Errorf("wait for other input: %w", ctx.Err())
	}
	if _, err := in.source.Frame(ctx); err != nil {
		return api.InputReply{}, fmt.Errorf("look at the screen: %w", err)
	}
	reply := api.InputReply{Results: []api.ActionResult{}}
	view := viewOf(b)
	for i, a := range b.Actions {
		start := time.Now()
		res, err := in.one(ctx, a, view)
		if err != nil {
			in.letGo(ctx)
			if why, ok := errors.AsType[*api.Error](context.Cause(ctx)); ok { // control has changed hands
				err = why
			}
			e := *fault.From(err)
			e.Stage = fmt.Sprintf("actions[%d] %s", i, a.Kind)
			reply.Error = &e
			break
		}
		reply.Results = append(reply.Results, api.ActionResult{
			Kind: a.Kind, Effect: string(res.Effect), How: res.How, TookMS: time.Since(start).Milliseconds(),
		})
	}
	return reply, in.look(ctx, b, view, &reply)
}

// look fills in the screen as it is after a batch.
func (in *input) look(ctx context.Context, b api.InputBatch, view desktop.View, reply *api.InputReply) error {
	f, err := in.source.Frame(ctx)
	if err != nil {
		if reply.Error != nil {
			return nil //nolint:nilerr // the reply tells what came first
		}
		return fmt.Errorf("look at the screen after the batch: %w", err)
	}
	size := f.Image.Rect.Size()
	reply.Width, reply.Height, reply.Seq = size.X, size.Y, f.Seq
	if !b.Screenshot {
		return nil
	}
	res, err := in.camera.Encode(ctx, f, capture.Options{Region: view.Region, MaxWidth: view.Width})
	if err != nil {
		return err
	}
	reply.Screenshot = &api.Picture{
		MIME: res.MIME, Data: res.Bytes, Width: res.Width, Height: res.Height, Scale: res.Scale, Seq: res.Seq,
	}
	return nil
}

// letGo releases all keys and buttons, also when ctx has ended.
func (in *input) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	_ = in.hand.Release(ctx) // a display that is gone holds nothing
}

// Release implements live.Input.
func (in *input) Release(ctx context.Context) error { return in.hand.Release(ctx) }

// one plays one action.
func (in *input) one(ctx context.Context, a api.Action, view desktop.View) (inject.Result, error) {
	switch a.Kind {
	case "wait":
		return in.wait(ctx, a)
	case "release":
		return inject.Result{Effect: desktop.Unverified}, in.hand.Release(ctx)
	}
	steps, err := stepsOf(a, view)
	if err != nil {
		return inject.Result{}, err
	}
	results, err := in.hand.Do(ctx, steps...)
	if err != nil {
		// Which step of one action it was says nothing to the caller.
		if b, ok := errors.AsType[*inject.BatchError](err); ok {
			err = b.Err
		}
		return inject.Result{}, err
	}
	return weakest(results), nil
}

// weakest is the result of an action of several steps: what is proven of all.
func weakest(results []inject.Result) inject.Result {
	if len(results) == 0 {
		return inject.Result{Effect: desktop.Unverified}
	}
	out := results[len(results)-1]
	for _, r := range results {
		if r.Effect == desktop.Unverified {
			out.Effect, out.How = r.Effect, r.How
		}
	}
	return out
}

// wait is an action that only looks.
func (in *input) wait(ctx context.Context, a api.Action) (inject.Result, error) {
	const defaultWait = 10 * time.Second
	d := time.Duration(a.DurationMS) * time.Millisecond
	if a.For == "" || a.For == "time" {
		_, err := in.hand.Do(ctx, inject.Wait{Duration: d})
		return inject.Result{Effect: desktop.Confirmed, How: "time"}, err
	}
	if d == 0 {
		d = defaultWait
	}
	wctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	s := screen{camera: in.camera, source: in.source}
	_, err := s.Wait(wctx, live.Waiting{For: a.For, Still: 300 * time.Millisecond})
	if err != nil && errors.Is(wctx.Err(), context.DeadlineExceeded) {
		err = api.Errorf(api.CodeDeadline, "the screen was not seen to be %q within %s", a.For, d)
	}
	return inject.Result{Effect: desktop.Confirmed, How: "pixels"}, err
}

func viewOf(b api.InputBatch) desktop.View {
	v := desktop.View{Width: b.ImageWidth}
	if r := b.Region; r != nil {
		v.Region = image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height)
	}
	return v
}

// stepsOf is what the injector does for one action of the API.
func stepsOf(a api.Action, view desktop.View) ([]inject.Action, error) {
	at, err := pointOf(a, view)
	if err != nil {
		return nil, err
	}
	button, err := buttonOf(a.Button)
	if err != nil {
		return nil, err
	}
	duration := time.Duration(a.DurationMS) * time.Millisecond
	switch a.Kind {
	case "move":
		if at == nil {
			return nil, api.Errorf(api.CodeInvalid, "a move needs x and y")
		}
		return []inject.Action{inject.Move{To: *at}}, nil
	case "down":
		return []inject.Action{inject.Down{At: at, Button: button}}, nil
	case "up":
		return []inject.Action{inject.Up{At: at, Button: button}}, nil
	case "click":
		return []inject.Action{inject.Click{At: at, Button: button, Count: a.Count, Keys: a.Mods}}, nil
	case "drag":
		return dragOf(a, view, button, duration)
	case "scroll":
		return []inject.Action{inject.Scroll{At: at, DX: a.DX, DY: a.DY, Keys: a.Mods}}, nil
	case "key":
		return keysOf(a)
	case "hold":
		if a.Keys == "" {
			return nil, api.Errorf(api.CodeInvalid, "a hold needs keys")
		}
		return []inject.Action{inject.Hold{Keys: chordOf(a), Duration: duration, Rate: float64(a.PerSecond)}}, nil
	case "text":
		return textOf(a), nil
	}
	return nil, api.Errorf(api.CodeInvalid, "unknown action %q", a.Kind)
}

func pointOf(a api.Action, view desktop.View) (*inject.Point, error) {
	switch {
	case a.X == nil && a.Y == nil:
		return nil, nil
	case a.X == nil || a.Y == nil:
		return nil, api.Errorf(api.CodeInvalid, "a point needs both x and y")
	}
	return &inject.Point{X: *a.X, Y: *a.Y, View: view}, nil
}

func buttonOf(name string) (desktop.Button, error) {
	switch name {
	case "", "left":
		return desktop.ButtonLeft, nil
	case "middle":
		return desktop.ButtonMiddle, nil
	case "right":
		return desktop.ButtonRight, nil
	case "back":
		return desktop.ButtonBack, nil
	case "forward":
		return desktop.ButtonForward, nil
	}
	return 0, api.Errorf(api.CodeInvalid, "unknown button %q: want left, middle, right, back or forward", name)
}

func dragOf(a api.Action, view desktop.View, button desktop.Button, d time.Duration) ([]inject.Action, error) {
	if len(a.Path) == 0 {
		return nil, api.Errorf(api.CodeInvalid, "a drag needs a path")
	}
	drag := inject.Drag{Button: button, Duration: d, Keys: a.Mods}
	for _, p := range a.Path {
		drag.Path = append(drag.Path, inject.Point{X: p[0], Y: p[1], View: view})
	}
	return []inject.Action{drag}, nil
}

// chordOf is the keys of an action, after those held meanwhile.
func chordOf(a api.Action) []string {
	return append(append([]string{}, a.Mods...), a.Keys)
}

func keysOf(a api.Action) ([]inject.Action, error) {
	if strings.TrimSpace(a.Keys) == "" {
		return nil, api.Errorf(api.CodeInvalid, "a key needs keys, e.g. ctrl+s")
	}
	steps := make([]inject.Action, max(a.Repeat, 1))
	for i := range steps {
		steps[i] = inject.Key{Keys: chordOf(a)}
	}
	return steps, nil
}

// textOf types text, at a rate of its own if one is named.
func textOf(a api.Action) []inject.Action {
	if a.PerSecond <= 0 {
		return []inject.Action{inject.Text{Text: a.Text}}
	}
	pause := inject.Wait{Duration: time.Second / time.Duration(a.PerSecond)}
	var steps []inject.Action
	for _, r := range a.Text {
		steps = append(steps, inject.Text{Text: string(r)}, pause)
	}
	return steps
}
