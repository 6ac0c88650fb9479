//go:build integration

package sessions_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/blob/s3"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

// apartBy is how much the clocks of the two hosts differ.
const apartBy = 5 * time.Minute

// pair is two hosts with data directories, machines and clocks of their own, on one
// real PostgreSQL and one real S3 server.
type pair struct {
	t     *testing.T
	dsn   string
	admin *sqlstore.Store
	one   *member
	two   *member
}

// member is one host of a pair.
type member struct {
	*world

	of    *pair
	node  string
	clock time.Duration
	db    *sqlstore.Store

	mu    sync.Mutex
	began chan struct{} // guarded by mu; nil: nothing is held up
	goOn  chan struct{} // guarded by mu
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, dsn: postgres.Start(t).Database(t)}
	p.admin = p.open()
	server := s3test.Start(t, t.TempDir())
	p.one, p.two = p.member("one", 0, server), p.member("two", apartBy, server)
	return p
}

func (p *pair) open() *sqlstore.Store {
	p.t.Helper()
	s, err := sqlstore.OpenPostgres(p.t.Context(), p.dsn)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = s.Close() }) // a dead host's is closed
	return s
}

func (p *pair) member(node string, clock time.Duration, server string) *member {
	p.t.Helper()
	m := &member{of: p, node: node, clock: clock, db: p.open()}
	line := s3test.NewProxy(p.t, server, m.trouble)
	bucket, err := s3.Open(p.t.Context(), s3.Config{
		Endpoint: line.Addr, Bucket: s3test.Bucket, Prefix: "pair", AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	m.world = &world{t: p.t, dir: p.t.TempDir(), said: map[string]string{}}
	m.change = []func(*sessions.Config){func(c *sessions.Config) {
		c.Node, c.Stores, c.Publications, c.EndLeases, c.Now = m.node, m.db.Stores(), m.db.Publications, nil, m.now
	}}
	m.Fixture = hosttest.New(p.t, func(c *host.Config) {
		c.Blobs.Objects = retry.New(bucket, retry.Config{First: 10 * time.Millisecond, Max: 200 * time.Millisecond})
		c.Fences, c.Now = m.fences(), m.now
	})
	m.begin()
	return m
}

func (m *member) fences() workspaces.Fences {
	return workspaces.Fences{Fences: m.db.Stores().Fences, Publications: m.db.Publications}
}

func (m *member) now() time.Time { return time.Now().Add(m.clock) }

// holdUp lets uploads of packs wait from now on, until on is called.
func (m *member) holdUp() (began <-chan struct{}, on func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	goOn := make(chan struct{})
	m.began, m.goOn = make(chan struct{}), goOn
	return m.began, sync.OnceFunc(func() {
		m.mu.Lock()
		m.began, m.goOn = nil, nil
		m.mu.Unlock()
		close(goOn)
	})
}

// trouble is the plan of the host's line to the store.
func (m *member) trouble(r *http.Request) s3test.Trouble {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/packs/") {
		return s3test.Trouble{}
	}
	m.mu.Lock()
	began, goOn := m.began, m.goOn
	if began != nil {
		select {
		case <-began:
		default:
			close(began)
		}
	}
	m.mu.Unlock()
	if goOn != nil {
		<-goOn
	}
	return s3test.Trouble{}
}

// killed lets the host die: its database hears no more of it. Another one is begun in
// its place, on what it had written.
func (m *member) killed() {
	m.t.Helper()
	dead := m.db
	if err := dead.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.db = m.of.open()
	m.Config.Fences = m.fences()
	m.Crash()
	m.begin()
}

// expire lets all leases run out, as the database's time does.
func (p *pair) expire() {
	p.t.Helper()
	if _, err := p.admin.DB().ExecContext(p.t.Context(), `UPDATE session_fences SET expires_at_ms = 0 WHERE expires_at_ms > 0`); err != nil {
		p.t.Fatal(err)
	}
}

// idle waits until a host has no machine.
func (m *member) idle() {
	m.t.Helper()
	m.until("the machines of host "+m.node+" go", func() error {
		if n := len(m.Provider.Machines()); n != 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}

// TestTwoHostsFight: of two hosts that want one session at the same time one works and
// the other is told so; each goes on from what the other has published.
func TestTwoHostsFight(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before := ""
	for round := range 4 {
		runs := map[*member]api.Run{}
		for _, m := range []*member{p.one, p.two} {
			runs[m] = m.start(fmt.Sprintf("wait_for on%d", round))
		}
		winner, loser := p.one, p.two
		p.one.until("one of the runs works", func() error {
			for _, m := range []*member{p.one, p.two} {
				if _, err := os.Stat(filepath.Join(m.dir, m.said[runs[m].ID])); err == nil {
					winner, loser = m, map[*member]*member{p.one: p.two, p.two: p.one}[m]
					return nil
				}
			}
			return errors.New("none does")
		})
		if last, _, _, _ := loser.ended(runs[loser]); last.State != api.RunConflict || last.RetryMS <= 0 || last.RetryMS > 90_000 {
			t.Errorf("round %d: on host %s %+v, %v", round, loser.node, last, last.Error)
		}
		disk := winner.disk(runs[winner])
		got, text := make([]byte, 32), fmt.Sprintf("round %d on host %s", round, winner.node)
		disk.ReadWorkspace(got, place)
		if was := strings.TrimRight(string(got), "\x00"); was != before {
			t.Errorf("round %d: host %s found %q, want %q", round, winner.node, was, before)
		}
		disk.WriteWorkspace([]byte(text), place)
		before = text
		winner.sign(fmt.Sprintf("on%d", round))
		if last, _, _, _ := winner.ended(runs[winner]); last.State != api.RunCompleted || last.Revision != int64(round+1) {
			t.Errorf("round %d: on host %s %+v, %v", round, winner.node, last, last.Error)
		}
	}
	p.one.idle()
	p.two.idle()
}

// TestLeaseLostInTheUpload: a host that has lost its session in the middle of an upload
// publishes nothing, keeps no machine, and what it stored stands in nobody's way.
func TestLeaseLostInTheUpload(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.one.leaves(api.RunCompleted, "first", "true")
	began, on := p.one.holdUp()
	defer on()
	r := p.one.start("wait_for upload")
	p.one.disk(r).WriteWorkspace([]byte("worse"), place)
	p.one.sign("upload")
	select {
	case <-began:
	case <-time.After(limit):
		t.Fatal("nothing is uploaded")
	}
	p.expire()
	if was, last := p.two.leaves(api.RunCompleted, "other", "true"); was != "first" || last.Generation != 3 || last.Revision != 2 {
		t.Errorf("the other host found %q, %+v", was, last)
	}
	on()
	if last, _, _, _ := p.one.ended(r); last.State != api.RunLeaseLost || last.Error.Code != api.CodeConflict || last.Revision != 0 {
		t.Errorf("the run that lost its session: %+v, %v", last, last.Error)
	}
	p.one.idle()
	if was, last := p.one.leaves(api.RunCompleted, "third", "true"); was != "other" || last.Revision != 3 {
		t.Errorf("back on the first host: %q, %+v", was, last)
	}
	for _, m := range []*member{p.one, p.two} {
		if pruned, err := m.Host.Workspaces.Prune(t.Context(), api.PruneWorkspaces{Last: 1}); err != nil || len(pruned.Missing) != 0 {
			t.Errorf("prune on host %s: %+v, %v", m.node, pruned, err)
		}
	}
	if was, _ := p.two.leaves(api.RunCompleted, "fourth", "true"); was != "third" {
		t.Errorf("after the sweeps: %q", was)
	}
}

// TestHostKilledBesideAnother: the session is held until its lease runs out, and no
// longer; the other host goes on from what was published, and the machine is ended by
// the next process of its own host.
func TestHostKilledBesideAnother(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.one.leaves(api.RunCompleted, "first", "true")
	r := p.one.start("wait_for never")
	p.one.disk(r).WriteWorkspace([]byte("worse"), place)
	p.one.killed()
	if last := p.two.run(api.RunConflict, "true"); last.RetryMS <= 0 || last.RetryMS > 90_000 {
		t.Errorf("while the lease lasts: %+v, %v", last, last.Error)
	}
	if n := len(p.one.Provider.Machines()); n != 1 {
		t.Errorf("while the lease lasts the dead host has %d machines", n)
	}
	p.expire()
	if was, last := p.two.leaves(api.RunCompleted, "other", "true"); was != "first" || last.Revision != 2 {
		t.Errorf("the other host found %q, %+v", was, last)
	}
	p.one.idle()
	if was, _ := p.one.leaves(api.RunCompleted, "third", "true"); was != "other" {
		t.Errorf("back on the first host: %q", was)
	}
}
