//go:build integration

package e2e_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

//go:embed testdata/scene.py
var scenePy string

// scene is what goes on in a desktop that is about to be cloned: programs that
// count, talk and write, files, a text that is being typed, a clipboard.
type scene struct {
	dir     string // in the guest's home
	execs   map[string]api.ExecStatus
	text    string // typed so far
	clip    string
	windows []string
	sums    map[string]string
	counted int // the number that was seen last
}

const clipOfScene = "kept, äöü 🦊"

// stage sets a scene in a desktop.
func (d desk) stage(t *testing.T) scene {
	t.Helper()
	s := scene{dir: "/home/agent/scene", clip: clipOfScene, execs: map[string]api.ExecStatus{}}
	d.put(t, s.script(), scenePy)
	d.put(t, s.note(), "")
	d.sh(t, `for f in `+s.dir+`/big /workspace/big; do head -c 64M /dev/urandom > $f; done; sync`)
	s.start(t, d, "count")
	s.start(t, d, "tcp", s.dir+"/tcp")
	s.start(t, d, "records", s.dir+"/records")
	d.editor(t, s.note())
	if err := d.Clipboard().SetText(t.Context(), s.clip); err != nil {
		t.Fatal(err)
	}
	s.windows = d.opened(t)
	d.until(t, time.Minute, "the scene", func(ctx context.Context) error {
		res, err := d.Execs().Run(ctx, api.Exec{Shell: "test -s " + s.dir + "/tcp && test -s " + s.dir + "/records"})
		if err == nil && res.ExitCode != 0 {
			err = errors.New("programs have written nothing")
		}
		return err
	})
	s.look(t, d)
	return s
}

func (s *scene) script() string { return s.dir + "/scene.py" }
func (s *scene) note() string   { return s.dir + "/note.txt" }

// start starts a part of the scene.
func (s *scene) start(t *testing.T, d desk, part string, args ...string) {
	t.Helper()
	st, err := d.Execs().Start(t.Context(), api.Exec{Argv: append([]string{"python3", s.script(), part}, args...)})
	if err != nil {
		t.Fatalf("start %s: %v", part, err)
	}
	s.execs[part] = st
}

// opened names the windows of programs.
func (d desk) opened(t *testing.T) []string {
	t.Helper()
	all, err := d.Windows().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, w := range all {
		if w.Type == "normal" {
			open = append(open, fmt.Sprintf("%d %s %d", w.ID, w.Class, w.PID))
		}
	}
	slices.Sort(open)
	return open
}

// again is the scene as a clone has it.
func (s *scene) again() scene {
	c := *s
	c.execs, c.sums = maps.Clone(s.execs), maps.Clone(s.sums)
	return c
}

// types adds to the text; whether it has arrived shows when the scene is judged.
func (s *scene) types(t *testing.T, d desk, more string) {
	t.Helper()
	if err := d.Type(t.Context(), more); err != nil {
		t.Fatalf("type %q: %v", more, err)
	}
	s.text += more
}

// holds demands that all of the scene is in a desktop, and goes on there. who
// is typed, so that desktops that come from each other differ.
func (s *scene) holds(t *testing.T, d desk, who string) {
	t.Helper()
	if now := d.opened(t); !slices.Equal(now, s.windows) {
		t.Errorf("%s: windows %q, want %q", who, now, s.windows)
	}
	if now, err := d.Clipboard().Text(t.Context()); err != nil || now != s.clip {
		t.Errorf("%s: clipboard %q, %v, want %q", who, now, err, s.clip)
	}
	s.types(t, d, who+". ")
	s.count(t, d, who)
	s.look(t, d)
	d.saved(t, s.note(), s.text)
	for part, was := range s.execs {
		now, err := d.Execs().Get(t.Context(), was.ID)
		if err != nil || !now.Running || now.PID != was.PID {
			t.Errorf("%s: %s is %+v, %v, was %+v", who, part, now, err, was)
		}
	}
}

// look lets the guest judge its files, read from the disks, and its connection.
func (s *scene) look(t *testing.T, d desk) {
	t.Helper()
	d.asRoot(t, "echo 1 > /proc/sys/vm/drop_caches")
	var got struct {
		Began map[string]int
		Sums  map[string]string
	}
	if err := json.Unmarshal([]byte(d.sh(t, "exec python3 "+s.script()+" check "+s.dir)), &got); err != nil {
		t.Fatal(err)
	}
	if s.sums == nil {
		s.sums = got.Sums
	}
	if !maps.Equal(got.Sums, s.sums) {
		t.Errorf("hashes %v, want %v", got.Sums, s.sums)
	}
}

// count reads all that the counter has said, demands that no number is missing
// or doubled, that it is beyond what was seen, and goes on.
func (s *scene) count(t *testing.T, d desk, who string) {
	t.Helper()
	n := newNumbers()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.Execs().Attach(ctx, s.execs["count"].ID, client.Streams{Stdout: n, OutFrom: client.FromKept})
		ended <- err
	}()
	first := s.counted
	last, err := n.beyond(ctx, s.counted+20)
	cancel()
	if aerr := <-ended; err != nil {
		t.Errorf("%s: the counter, seen at %d, is at %d: %v, %v", who, first, last, err, aerr)
	}
	s.counted = last
}

// numbers reads one number a line, and that each is the one after the last.
type numbers struct {
	mu    sync.Mutex
	rest  string        // guarded by mu; the beginning of a line
	last  int           // guarded by mu
	wrong error         // guarded by mu
	more  chan struct{} // holds a token when something came
}

func newNumbers() *numbers { return &numbers{more: make(chan struct{}, 1)} }

func (n *numbers) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := strings.Split(n.rest+string(p), "\n")
	n.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		k, err := strconv.Atoi(line)
		if (err != nil || k != n.last+1) && n.wrong == nil {
			n.wrong = fmt.Errorf("%q came after %d", line, n.last)
		}
		n.last = k
	}
	select {
	case n.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// now is the last number, and what was wrong so far.
func (n *numbers) now() (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last, n.wrong
}

// beyond waits for a number.
func (n *numbers) beyond(ctx context.Context, k int) (int, error) {
	for {
		last, err := n.now()
		if err != nil || last >= k {
			return last, err
		}
		select {
		case <-n.more:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// follow attaches to the scene's counter until the test asks for what came.
func (s *scene) follow(t *testing.T, d desk) (n *numbers, stop func()) {
	t.Helper()
	n = newNumbers()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = d.Execs().Attach(ctx, s.execs["count"].ID, client.Streams{Stdout: n, OutFrom: client.FromKept})
	}()
	return n, func() { cancel(); <-ended }
}

// fork makes one child and waits until it can be used.
func (d desk) fork(t *testing.T, spec api.Fork) desk {
	t.Helper()
	return d.forks(t, spec)[0]
}

// forks makes children, which go with the test.
func (d desk) forks(t *testing.T, spec api.Fork) []desk {
	t.Helper()
	made, err := d.Fork(t.Context(), spec, client.Until(api.StageDrawn), client.Within(3*time.Minute))
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	var children []desk
	for _, c := range made {
		children = append(children, ephemeral(t, c))
	}
	return children
}

// ephemeral removes a desktop with the test.
func ephemeral(t *testing.T, d *client.Desktop) desk {
	t.Helper()
	t.Cleanup(func() {
		if err := d.Delete(context.Background()); err != nil && !is(err, api.CodeNotFound) {
			t.Errorf("delete %s: %v", d.Ref(), err)
		}
	})
	return desk{d}
}

// keep makes a snapshot, which goes with the test.
func (d desk) keep(t *testing.T) api.Snapshot {
	t.Helper()
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r == '/' || r == '_' {
			return '-'
		}
		return r
	}, path.Base(t.Name()))) + strconv.FormatInt(time.Now().UnixNano()%1e12, 36)
	snap, err := d.Snapshot(t.Context(), name)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	t.Cleanup(func() {
		if err := host.Client.Snapshots().Remove(context.Background(), name); err != nil && !is(err, api.CodeNotFound) {
			t.Errorf("remove snapshot %s: %v", name, err)
		}
	})
	return snap
}

// clone makes a desktop of a snapshot, which goes with the test.
func clone(t *testing.T, snapshot string) desk {
	t.Helper()
	d, err := host.Client.Desktops().Create(t.Context(), api.CreateDesktop{Snapshot: snapshot}, client.Until(api.StageDrawn), client.Within(3*time.Minute))
	if err != nil {
		t.Fatalf("create from %s: %v", snapshot, err)
	}
	return ephemeral(t, d)
}
