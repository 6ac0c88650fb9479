package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// TestPruneSparesHistoryOfOtherHosts: each host has a list of its own of what was
// published there; the policy is for all of it, whichever host sweeps.
func TestPruneSparesHistoryOfOtherHosts(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var later atomic.Int64                                                                          // checkpoints are told apart by the second
	days := func() time.Time { return time.Now().Add(-72*time.Hour + time.Duration(later.Load())) } // what is written is old
	member := func(node string, beside *world) *world {
		w := &world{t: t, dir: t.TempDir(), said: map[string]string{}}
		w.change = []func(*sessions.Config){func(c *sessions.Config) { c.Node = node }}
		w.Fixture = hosttest.New(t, func(c *host.Config) {
			c.Blobs, c.Now = workspaces.Blobs{Objects: s.below}, days
			if beside != nil {
				c.Fences = beside.Config.Fences
			}
		})
		if beside != nil {
			w.Sessions = beside.Sessions
		}
		w.begin()
		return w
	}
	one := member("one", nil)
	two := member("two", one)
	for _, text := range []string{"first", "second", "third"} {
		one.leaves(api.RunCompleted, text, "true")
		later.Add(int64(time.Minute))
	}
	two.leaves(api.RunCompleted, "fourth", "true")
	log, err := one.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 3 {
		t.Fatalf("%+v, %v", log, err)
	}
	prune := func(w *world, last, kept, dropped int) {
		t.Helper()
		p, err := w.Host.Workspaces.Prune(t.Context(), api.PruneWorkspaces{Last: last})
		if err != nil || p.Kept != kept || len(p.Dropped) != dropped || len(p.Missing) != 0 {
			t.Errorf("the last %d: %+v, %v", last, p, err)
		}
	}
	prune(two, 10, 4, 0)
	prune(two, 1, 2, 2) // of each host's own line the newest stays
	prune(one, 1, 2, 0)
	if log, err = one.Host.Workspaces.Log(t.Context(), hosttest.Project, "work"); err != nil || len(log) != 1 {
		t.Errorf("the other host's list: %+v, %v", log, err)
	}
	if was, _ := one.leaves(api.RunCompleted, "fifth!", "true"); was != "fourth" {
		t.Errorf("the next run found %q", was)
	}
}

// TestReplaceWhatIsDamaged: what the fence has published is damaged, and this host's
// list does not know of it yet. A checkpoint by hand that replaces it goes through.
func TestReplaceWhatIsDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves(api.RunCompleted, "first", "true")
	database := filepath.Join(w.Config.DataDir, "deskfork.db")
	again := func(what func()) {
		t.Helper()
		w.stop()
		w.Stop()
		what()
		w.Start()
		w.begin()
	}
	var before []byte
	again(func() {
		var err error
		if before, err = os.ReadFile(database); err != nil {
			t.Fatal(err)
		}
	})
	w.leaves(api.RunCompleted, "other", "true")
	log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 2 {
		t.Fatal(log, err)
	}
	again(func() {
		manifest := filepath.Join(w.Config.DataDir, "blobs", filepath.FromSlash(workspace.ManifestPrefix+log[0].Ref))
		err := errors.Join(os.WriteFile(database, before, 0o600), os.Chmod(manifest, 0o600), os.WriteFile(manifest, []byte("damaged"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	})
	d := w.Create(api.CreateDesktop{WorkspaceMiB: 64})
	w.Machine(d.ID).WriteWorkspace([]byte("by hand"), place)
	req := api.CreateCheckpoint{Workspace: "work"}
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, req, ""); !errors.Is(err, workspace.ErrCorrupt) || !strings.Contains(err.Error(), log[0].Ref) {
		t.Errorf("without replacing: %v", err)
	}
	req.Replace = true
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, req, ""); err != nil {
		t.Errorf("replacing: %v", err)
	}
	if was, _ := w.leaves(api.RunCompleted, "next...", "true"); was != "by hand" {
		t.Errorf("the next run found %q", was)
	}
}
