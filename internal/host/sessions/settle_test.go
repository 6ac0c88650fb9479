package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/sessions/record"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// deaf is fences of a host that dies in a publication: it is taken, and the host does
// not hear of it; or it is never sent.
type deaf struct {
	session.Fences

	taken bool
	came  func()
	end   <-chan struct{}
}

// Publish implements session.Fences.
func (f *deaf) Publish(ctx context.Context, fence session.Fence, draft session.Draft) (session.Publication, error) {
	if f.taken {
		if _, err := f.Fences.Publish(ctx, fence, draft); err != nil {
			return session.Publication{}, err
		}
	}
	f.came()
	<-f.end
	return session.Publication{}, errors.New("the host is dead")
}

// TestDaemonDiesInAPublication: the next process finds out whether it was taken. What
// was is whole: the run is completed, its outputs are to be had by its id, and the
// next run finds what it left. What was not counts for nothing.
func TestDaemonDiesInAPublication(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{true, false} {
		t.Run(map[bool]string{true: "taken", false: "not taken"}[taken], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.leaves(api.RunCompleted, "first", "true")
			w.stop()
			w.Stop()
			w.Start()
			end, came := make(chan struct{}), make(chan struct{})
			defer close(end) // before the dead desk is waited for
			w.change = append(w.change, func(c *sessions.Config) {
				c.Stores.Fences = &deaf{Fences: c.Stores.Fences, taken: taken, came: sync.OnceFunc(func() { close(came) }), end: end}
			})
			w.begin()
			r := w.start("wait_for go; echo made > "+filepath.Join(w.dir, "outputs", "x"), withOutputs)
			w.disk(r).WriteWorkspace([]byte("other"), place)
			w.sign("go")
			<-came
			w.change = nil
			w.Crash()
			w.begin()
			last, _, _, _ := w.ended(r)
			got, err := w.output(r, "x")
			was := "first"
			if taken {
				was = "other"
				if last.State != api.RunCompleted || last.Revision != 2 || len(last.Warnings) != 1 || last.Outputs == nil || last.Outputs.Files != 1 || err != nil || string(got) != "made\n" {
					t.Errorf("ended %+v, %v; output %q, %v", last, last.Error, got, err)
				}
			} else if last.State != api.RunLeaseLost || last.Error.Code != api.CodeGuestUnavail || last.Revision != 0 || !errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
				t.Errorf("ended %+v, %v; output %q, %v", last, last.Error, got, err)
			}
			w.until("the machine is ended", func() error {
				if n := len(w.Provider.Machines()); n != 0 {
					return errors.New("it is there")
				}
				return nil
			})
			if found, _ := w.leaves(api.RunCompleted, "third", "true"); found != was {
				t.Errorf("the next run found %q, want %q", found, was)
			}
		})
	}
}

// TestRunsAreKnownAfterARestart: how they ended, their outputs, and under which key
// they were begun; the oldest are forgotten.
func TestRunsAreKnownAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := filepath.Join(w.dir, "outputs")
	req := api.StartRun{
		Workspace: "work", Image: "test", WorkspaceMiB: 64, Outputs: true, Env: map[string]string{"SECRET": "hush"},
		Argv: []string{"sh", "-c", "echo $SECRET; echo made > " + out + "/x"},
	}
	r, err := w.Desk.Start(t.Context(), hosttest.Project, req, "key")
	if err != nil {
		t.Fatal(err)
	}
	before, stdout, _, _ := w.ended(r)
	if before.State != api.RunCompleted || stdout != "hush\n" {
		t.Fatalf("%+v, %v, %q", before, before.Error, stdout)
	}
	dir := filepath.Join(w.Config.DataDir, "runs")
	if text, err := os.ReadFile(filepath.Join(dir, r.ID+".json")); err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("written down: %s, %v", text, err)
	}
	w.stop()
	w.Stop()
	book, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	old := before
	old.ID, old.Created = "oldest", before.Created.Add(-time.Hour)
	for i := range 100 {
		if err := book.Put(record.Record{Run: old}); err != nil {
			t.Fatal(err)
		}
		old.ID, old.Created = fmt.Sprintf("old%d", i), before.Created.Add(-time.Minute)
	}
	w.Start()
	w.begin()
	after, _, _, _ := w.ended(r)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after the restart:\n%s", diff)
	}
	if got, err := w.output(r, "x"); err != nil || string(got) != "made\n" {
		t.Errorf("output %q, %v", got, err)
	}
	if again, err := w.Desk.Start(t.Context(), hosttest.Project, req, "key"); err != nil || again.ID != r.ID {
		t.Errorf("begun again: %+v, %v", again, err)
	}
	w.until("the oldest is forgotten", func() error {
		_, err := w.Desk.Get(hosttest.Project, "oldest")
		_, serr := os.Stat(filepath.Join(dir, "oldest.json"))
		if errors.Is(err, &api.Error{Code: api.CodeNotFound}) && errors.Is(serr, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(errors.New("it is known"), err, serr)
	})
	if n := len(w.Desk.List(hosttest.Project)); n != 100 {
		t.Errorf("%d runs are known", n)
	}
}

// TestOutputsOfForgottenRuns are found by their workspace, newest first, until a prune
// drops them, and in no other project.
func TestOutputsOfForgottenRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{"one", "two"} {
		w.run(api.RunCompleted, "printf "+text+" > "+filepath.Join(w.dir, "outputs", "x"), withOutputs)
	}
	w.stop()
	w.Stop()
	if err := os.RemoveAll(filepath.Join(w.Config.DataDir, "runs")); err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.begin()
	list, err := w.Desk.Published(t.Context(), hosttest.Project, "work")
	if err != nil || len(list.Sets) != 2 || !list.Sets[0].Newest || list.Sets[1].Newest || list.Sets[0].Published.Before(list.Sets[1].Published) {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []string{"two", "one"} {
		files, err := w.Desk.PublishedFiles(t.Context(), hosttest.Project, "work", list.Sets[i].ID)
		if err != nil || len(files.Files) != 1 || files.Files[0].Path != "x" {
			t.Errorf("%+v, %v", files, err)
		}
		_, body, err := w.Desk.PublishedFile(t.Context(), hosttest.Project, "work", list.Sets[i].ID, "x")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	none := &api.Error{Code: api.CodeNotFound}
	for _, at := range [][2]string{{"other", "work"}, {hosttest.Project, "other"}} {
		if _, err := w.Desk.Published(t.Context(), at[0], at[1]); !errors.Is(err, none) {
			t.Errorf("%q: %v", at, err)
		}
		if _, err := w.Desk.PublishedFiles(t.Context(), at[0], at[1], list.Sets[0].ID); !errors.Is(err, none) {
			t.Errorf("%q: %v", at, err)
		}
	}
	for _, name := range []string{"y", ""} {
		if _, _, err := w.Desk.PublishedFile(t.Context(), hosttest.Project, "work", list.Sets[0].ID, name); !errors.Is(err, none) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := w.Desk.PublishedFiles(t.Context(), hosttest.Project, "work", "out_none"); !errors.Is(err, none) {
		t.Errorf("no such outputs: %v", err)
	}
}
