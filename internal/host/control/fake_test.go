package control_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

const desktopID = "d1"

func agent(name string) control.Holder {
	return control.Holder{Name: name, By: "token:" + name, Kind: api.ControlAgent}
}

func person(name string) control.Holder {
	return control.Holder{Name: name, By: "ticket:" + name, Kind: api.ControlPerson}
}

func admin(name string) control.Holder {
	return control.Holder{Name: name, By: "ticket:" + name, Kind: api.ControlPerson, Admin: true}
}

// world is what a desk stands on.
type world struct {
	mu       sync.Mutex
	desktop  api.Desktop
	live     *live.Desktop
	rows     []store.Audit
	broken   error // of the log
	events   []string
	released int
	letGo    func()
}

func newWorld() *world {
	w := &world{desktop: api.Desktop{ID: desktopID, Project: "p", Incarnation: "i1"}}
	w.live = &live.Desktop{Input: input{w}}
	return w
}

func (w *world) desk(tb testing.TB) *control.Desk {
	tb.Helper()
	d := control.New(control.Config{
		Log: w, Look: w.look, Use: w.use, Publish: w.publish, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	tb.Cleanup(d.Close)
	return d
}

func (w *world) look(id string) (api.Desktop, *live.Desktop, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.desktop, w.live, id == w.desktop.ID
}

func (w *world) use(context.Context, string, string) (*live.Desktop, api.Desktop, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live, w.desktop, nil
}

// input is a world's input.
type input struct{ w *world }

func (input) Do(context.Context, api.InputBatch) (api.InputReply, error) {
	return api.InputReply{}, errors.ErrUnsupported
}

func (i input) Release(ctx context.Context) error { return i.w.release(ctx) }

func (w *world) release(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released++
	if w.letGo != nil {
		w.letGo()
	}
	return nil
}

func (w *world) publish(_, typ, _ string, _ map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, typ)
}

func (w *world) AddAudit(_ context.Context, a store.Audit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.rows = append(w.rows, a)
	}
	return w.broken
}

func (w *world) LastControl(context.Context, string) (store.Audit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rows) == 0 {
		return store.Audit{}, store.ErrNotFound
	}
	return w.rows[len(w.rows)-1], nil
}

func (w *world) set(change func(*api.Desktop)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.desktop)
}

func (w *world) seen() (events []string, released int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.events...), w.released
}

func do(t *testing.T, d *control.Desk, who control.Holder, req api.ChangeControl) api.Control {
	t.Helper()
	got, err := d.Change(t.Context(), desktopID, who, req, 0)
	if err != nil {
		t.Fatalf("%s by %s: %v", req.Action, who.Name, err)
	}
	return got
}

func isHeld(err error) bool { return errors.Is(err, &api.Error{Code: api.CodeControlHeld}) }

func may(t *testing.T, d *control.Desk, who control.Holder, epoch uint64) error {
	t.Helper()
	_, leave, err := d.Enter(t.Context(), desktopID, who, epoch, 0)
	if err == nil {
		leave()
	}
	return err
}
