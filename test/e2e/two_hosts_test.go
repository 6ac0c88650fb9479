//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/test/harness"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

// fleet is two hosts with machines of their own, on one PostgreSQL and one S3
// server.
type fleet struct {
	one, two *harness.Daemon
	line     *wire // of one to the store
	db       *sqlstore.Store
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{one: host, two: copied(t), line: &wire{}}
	dsn, server := postgres.Start(t).Database(t), s3test.Start(t, t.TempDir())
	var err error
	if f.db, err = sqlstore.OpenPostgres(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
	shared := []string{"--session-database", dsn}
	f.two.Stop()
	f.two.Args = append(shared, new(wire).to(t, server)...)
	if err := f.two.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			f.two.DumpLog()
		}
	})
	serveWith(t, append(shared, f.line.to(t, server)...)...)
	return f
}

// expire lets all leases run out, as the database's time does in a minute and a
// half.
func (f *fleet) expire(t *testing.T) {
	t.Helper()
	if _, err := f.db.DB().ExecContext(t.Context(), `UPDATE session_fences SET expires_at_ms = 0 WHERE expires_at_ms > 0`); err != nil {
		t.Fatal(err)
	}
}

// idle waits until a host has no machine of a workspace.
func idle(t *testing.T, d *harness.Daemon, workspace string) {
	t.Helper()
	desk{d.Client.Desktop(workspace)}.until(t, 2*time.Minute, "the machines of "+workspace+" go", func(context.Context) error {
		if left := machinesOn(t, d, workspace); len(left) > 0 {
			return fmt.Errorf("%v are there", left)
		}
		return nil
	})
}

// holdUp lets the uploads of packs wait from now on, until goOn is called.
func (l *wire) holdUp() (began <-chan struct{}, goOn func()) {
	first, gate := make(chan struct{}), make(chan struct{})
	begin, open := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(gate) })
	l.befall(func(_ int, r *http.Request) s3test.Trouble {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/packs/") {
			return s3test.Trouble{}
		}
		begin()
		return s3test.Trouble{Until: gate}
	})
	return first, func() {
		l.befall(nil)
		open()
	}
}

// TestTwoHosts: real machines on two hosts. Of two that want one session one gets it;
// one that loses its lease in the middle of an upload publishes nothing and keeps no
// machine; one that is killed holds the session for its lease alone, and its next
// process ends the machine. Each goes on from what was published.
func TestTwoHosts(t *testing.T) {
	alone(t)
	f := newFleet(t)
	w := newWorkspace()
	goes := map[*harness.Daemon]string{f.one: "one", f.two: "two"}
	runs := map[*harness.Daemon]*vmhostRun{}
	for d, name := range goes {
		runs[d] = beginOn(t, d, w, "echo "+name+" > a; while test ! -e /tmp/end; do sleep 0.2; done")
	}
	winner, loser := f.one, f.two
	select {
	case <-runs[f.one].done:
		winner, loser = f.two, f.one
	case <-runs[f.two].done:
	case <-time.After(2 * time.Minute):
		t.Fatal("both hosts have the session")
	}
	runs[loser].ends(t, api.CodeConflict.ExitStatus())
	if left := machinesOn(t, loser, w); len(left) > 0 {
		t.Errorf("the loser has machines: %v", left)
	}
	desk{winner.Client.Desktop(w)}.until(t, 2*time.Minute, "the winner works", func(context.Context) error {
		for _, id := range machinesOn(t, winner, w) {
			if res, err := winner.Client.Desktop(id).Exec(t.Context(), "sh", "-c", "test -s /workspace/a && touch /tmp/end"); err == nil && res.ExitCode == 0 {
				return nil
			}
		}
		return errors.New("not yet")
	})
	runs[winner].ends(t, 0)
	first := goes[winner] + "\n"

	began, goOn := f.line.holdUp()
	defer goOn()
	lost := beginOn(t, f.one, w, "cat a; echo worse > a; head -c 4M /dev/urandom > more")
	select {
	case <-began:
	case <-lost.done:
		t.Fatal("it ended before it uploaded")
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing is uploaded")
	}
	f.expire(t)
	if got := beginOn(t, f.two, w, "cat a; test ! -e more && echo second > a").ends(t, 0); got != first {
		t.Errorf("the other host finds %q, want %q", got, first)
	}
	goOn()
	if got := lost.ends(t, api.CodeConflict.ExitStatus()); got != first {
		t.Errorf("the run that lost its session found %q, want %q", got, first)
	}
	idle(t, f.one, w)

	killed := beginOn(t, f.two, w, "cat a; echo worse > a; sync; echo here; sleep 600")
	killed.until(t, "second\nhere")
	f.two.Kill()
	beginOn(t, f.one, w, "true").ends(t, api.CodeConflict.ExitStatus())
	f.expire(t)
	if got := beginOn(t, f.one, w, "cat a; echo third > a").ends(t, 0); got != "second\n" {
		t.Errorf("beside the dead host: %q", got)
	}
	if err := f.two.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	idle(t, f.two, w)
	if got := beginOn(t, f.two, w, "cat a").ends(t, 0); got != "third\n" {
		t.Errorf("back on the host that was killed: %q", got)
	}
	for _, d := range []*harness.Daemon{f.one, f.two} {
		if v, err := d.Client.Workspaces().Verify(t.Context(), w); err != nil || !v.OK {
			t.Errorf("verify: %+v, %v", v, err)
		}
	}
	log, err := f.two.Client.Workspaces().Log(t.Context(), w)
	if err != nil || len(log) != 4 || log[0].Parent != log[1].Ref || log[1].Parent != log[2].Ref || log[2].Parent != log[3].Ref {
		t.Errorf("published: %+v, %v", log, err)
	}
}
