package depot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/depot"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// mortal is a store whose host is killed after so many writes and removals: those
// that follow do not come to it, nor do questions.
type mortal struct {
	workspace.Objects

	left chan struct{} // one token a change
	dead chan struct{}
}

var errKilled = errors.New("the host was killed")

func newMortal(below workspace.Objects, changes int) *mortal {
	m := &mortal{Objects: below, left: make(chan struct{}, changes+1), dead: make(chan struct{})}
	for range changes {
		m.left <- struct{}{}
	}
	close(m.left)
	return m
}

// change does one, or dies of it.
func (m *mortal) change(do func() error) error {
	if _, ok := <-m.left; !ok {
		select {
		case <-m.dead:
		default:
			close(m.dead)
		}
		return errKilled
	}
	return do()
}

func (m *mortal) ask() error {
	select {
	case <-m.dead:
		return errKilled
	default:
		return nil
	}
}

// Put implements workspace.Objects.
func (m *mortal) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	return m.change(func() error { return m.Objects.Put(ctx, key, body, size) })
}

// Delete implements workspace.Objects.
func (m *mortal) Delete(ctx context.Context, key string) error {
	return m.change(func() error { return m.Objects.Delete(ctx, key) })
}

// List implements workspace.Objects.
func (m *mortal) List(ctx context.Context, prefix, after string, limit int) ([]workspace.Info, error) {
	if err := m.ask(); err != nil {
		return nil, err
	}
	return m.Objects.List(ctx, prefix, after, limit)
}

// TestKilled: wherever an export or a removal is cut off, what is listed can be
// imported, other exports too, the name can be used again, and what was left goes
// when it is old.
func TestKilled(t *testing.T) {
	t.Parallel()
	const parts = 3
	data := map[string][]byte{"login": stream(parts * partBytes), "other": stream(partBytes)}
	verbs := map[string]func(t *testing.T, d *depot.Desk) error{
		"export": func(t *testing.T, d *depot.Desk) error {
			t.Helper()
			_, err := d.Export(t.Context(), project, "login", "one")
			return err
		},
		"removal": func(t *testing.T, d *depot.Desk) error { t.Helper(); return d.Remove(t.Context(), project, "one") },
	}
	for name, verb := range verbs {
		for changes := 0; ; changes++ {
			below, key := &blobtest.Memory{}, newKey(t)
			d, has := host(t, below, key, data)
			exported(t, d, "other", "kept")
			if name == "removal" {
				exported(t, d, "login", "one")
			}
			dying, _ := host(t, newMortal(below, changes), key, data)
			err := verb(t, dying)
			if err == nil {
				if changes != parts+1 { // each part and the manifest
					t.Errorf("%s is done after %d changes", name, changes)
				}
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("%s after %d changes: %v", name, changes, err)
			}
			list, err := d.List(t.Context(), project)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				_, err := d.Import(t.Context(), project, e.Name, "back")
				if want := data[e.Snapshot]; err != nil || !bytes.Equal(has.data["back"], want) {
					t.Errorf("%s after %d changes: %s is listed: %+v, %v", name, changes, e.Name, e, err)
				}
			}
			if len(list) == 1 {
				_, err := d.Import(t.Context(), project, "one", "back")
				is(t, "an export that is not listed", err, api.CodeNotFound)
				exported(t, d, "login", "one")
			}
			delete(has.data, "back")
			d.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
			exported(t, d, "other", "last")
			if left := keys(t, below); len(left) != 2+2+parts+1 {
				t.Errorf("%s after %d changes: left %s", name, changes, strings.Join(left, " "))
			}
		}
	}
}
