package sandbox_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// page is in the memory, or on the disk, of a machine that is kept.
const page = "what nobody else may read 77ab"

// pair is two hosts with one store.
type pair struct {
	t        *testing.T
	dir, key string
	one, two *hosttest.Fixture
	below    *dir.Store
}

func newPair(t *testing.T) *pair {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, dir: t.TempDir(), key: key, one: hosttest.New(t), two: hosttest.New(t)}
	if p.below, err = dir.Open(p.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.below.Close() })
	return p
}

func (p *pair) vault(below blob.Store, key string) *vault.Vault {
	p.t.Helper()
	sealed, err := seal.New(below, strings.NewReader(key))
	if err != nil {
		p.t.Fatal(err)
	}
	return &vault.Vault{Objects: sealed, Key: sealed.Key()}
}

// on is the port on a host.
func (p *pair) on(f *hosttest.Fixture) *sandbox.Checkpoints {
	return &sandbox.Checkpoints{Sandbox: over(f), Vault: p.vault(p.below, p.key)}
}

// made seals a machine of the first host that has the page.
func (p *pair) made(generation int64) session.RuntimeCheckpoint {
	p.t.Helper()
	c, a := p.on(p.one), allocation(generation)
	l := acquired(p.t, c.Sandbox, a)
	_, id, err := sandbox.Desktop(l)
	if err != nil {
		p.t.Fatal(err)
	}
	p.one.Machine(id).WriteWorkspace([]byte(page), 1<<20)
	made, err := c.Create(p.t.Context(), wanted(a, l))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Sandbox.Terminate(p.t.Context(), a.Tenure, l, session.ReasonCompleted); err != nil {
		p.t.Fatal(err)
	}
	return made
}

// files are those of the store by the beginning of their key.
func (p *pair) files(prefix string) []string {
	p.t.Helper()
	list, err := p.below.List(p.t.Context(), prefix, "", 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	for _, b := range list {
		all = append(all, filepath.Join(p.dir, b.Key))
	}
	return all
}

// kept are the names of snapshots of sessions on a host.
func kept(t *testing.T, f *hosttest.Fixture) []string {
	t.Helper()
	list, err := f.Host.Snapshots.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		if s.Kind == "snapshot" {
			names = append(names, s.Name)
		}
	}
	return names
}

// TestGoesOnElsewhere: another host brings the machine from the store, once, and
// nothing of it can be read there.
func TestGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	made := p.made(1)
	var plain bytes.Buffer
	if err := p.one.Host.Snapshots.Export(t.Context(), hosttest.Project, vault.ParseRef(made.CheckpointID).ID, &plain); err != nil || !bytes.Contains(plain.Bytes(), []byte(page)) {
		t.Fatalf("the page is not in what is exported: %v", err)
	}
	head := plain.Bytes()[:64]
	searched := 0
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		searched += len(b)
		for _, secret := range [][]byte{[]byte(page), head, []byte("deskfork"), []byte(allocation(1).Tenure.Scope.Session)} {
			const byChance = 4 // bytes: as few are in any megabytes of ciphertext
			if len(secret) > byChance && bytes.Contains(b, secret) || strings.Contains(path, string(secret)) {
				t.Errorf("%q is in %s", secret, path)
			}
		}
		return err
	})
	if err != nil || searched < plain.Len() {
		t.Errorf("searched %d bytes, %v", searched, err)
	}
	for generation := int64(2); generation <= 3; generation++ {
		c := p.on(p.two)
		if generation == 3 {
			c.Vault.Objects = nil // it is here by now
		}
		l, err := c.Restore(t.Context(), allocation(generation), made)
		if err != nil {
			t.Fatal(err)
		}
		_, id, err := sandbox.Desktop(l)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(page))
		p.two.Machine(id).ReadWorkspace(got, 1<<20)
		if string(got) != page || len(kept(t, p.two)) != 1 {
			t.Errorf("generation %d has %q, kept are %q", generation, got, kept(t, p.two))
		}
	}
}

// TestFilesOfSnapshotAreGone: the vault has them; without one the run is told.
func TestFilesOfSnapshotAreGone(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	made := p.made(1)
	for _, f := range []*hosttest.Fixture{p.one, p.two} {
		for generation := int64(2); generation <= 3; generation++ {
			if _, err := p.on(f).Restore(t.Context(), allocation(generation), made); err != nil {
				t.Fatal(err)
			}
			f.Stop()
			for _, id := range f.Provider.SnapshotIDs() {
				if err := f.Provider.RemoveSnapshot(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			f.Start()
		}
	}
	alone := p.on(p.two)
	alone.Vault = nil
	if _, err := alone.Restore(t.Context(), allocation(4), made); !errors.Is(err, &api.Error{Code: api.CodeImageCorrupt}) {
		t.Errorf("without a vault: %v", err)
	}
}

// TestElsewhereFailsClosed: with a code and what to do, and nothing is left.
func TestElsewhereFailsClosed(t *testing.T) {
	t.Parallel()
	other, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	class := vm.HostClass{Provider: "memory", Version: "1", Machine: "memory", CPU: "none", Accelerator: vm.AccelKVM}
	change := func(prefix string, fn func(b []byte) []byte) func(*testing.T, *pair, *sandbox.Checkpoints, *session.RuntimeCheckpoint) {
		return func(t *testing.T, p *pair, _ *sandbox.Checkpoints, _ *session.RuntimeCheckpoint) {
			t.Helper()
			for _, path := range p.files(prefix) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if b = fn(b); b == nil {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sealedOn := func(fn func(*vm.HostClass)) func(*testing.T, *pair, *sandbox.Checkpoints, *session.RuntimeCheckpoint) {
		return func(_ *testing.T, p *pair, _ *sandbox.Checkpoints, _ *session.RuntimeCheckpoint) {
			c := class
			fn(&c)
			p.two.Provider.SetHostClass(c)
		}
	}
	flip := func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	gone := func([]byte) []byte { return nil }
	for name, tc := range map[string]struct {
		spoil func(*testing.T, *pair, *sandbox.Checkpoints, *session.RuntimeCheckpoint)
		code  api.Code
		says  string
	}{
		"wrong key": {func(_ *testing.T, p *pair, c *sandbox.Checkpoints, _ *session.RuntimeCheckpoint) {
			c.Vault = p.vault(p.below, other)
		}, api.CodePrecondition, "--blob-key"},
		"no vault": {func(_ *testing.T, _ *pair, c *sandbox.Checkpoints, _ *session.RuntimeCheckpoint) {
			c.Vault = nil
		}, api.CodePrecondition, "--blob-key"},
		"it has never left": {func(_ *testing.T, _ *pair, _ *sandbox.Checkpoints, r *session.RuntimeCheckpoint) {
			r.CheckpointID = vault.ParseRef(r.CheckpointID).ID
		}, api.CodeNotFound, "on the host alone"},
		"damaged part":     {change("runtime/parts/", flip), api.CodeImageCorrupt, "put the object back"},
		"missing part":     {change("runtime/parts/", gone), api.CodeImageCorrupt, "runtime/parts/"},
		"cut part":         {change("runtime/parts/", func(b []byte) []byte { return b[:len(b)-70_000] }), api.CodeImageCorrupt, "runtime/parts/"},
		"damaged manifest": {change("runtime/manifests/", flip), api.CodeImageCorrupt, "runtime/manifests/"},
		"missing manifest": {change("runtime/manifests/", gone), api.CodeImageCorrupt, "put the object back"},
		"another hash": {func(_ *testing.T, _ *pair, _ *sandbox.Checkpoints, r *session.RuntimeCheckpoint) {
			r.CheckpointID = vault.Ref{ID: vault.ParseRef(r.CheckpointID).ID, Sum: strings.Repeat("0", 64)}.String()
		}, api.CodeImageCorrupt, "not what was published"},
		"another version":     {sealedOn(func(c *vm.HostClass) { c.Version = "2" }), api.CodePrecondition, "run on a host with"},
		"another accelerator": {sealedOn(func(c *vm.HostClass) { c.Accelerator = vm.AccelTCG }), api.CodePrecondition, "run on a host with"},
		"another CPU":         {sealedOn(func(c *vm.HostClass) { c.CPU = "max" }), api.CodePrecondition, "run on a host with"},
		"another shape": {func(_ *testing.T, p *pair, c *sandbox.Checkpoints, _ *session.RuntimeCheckpoint) {
			c.Sandbox = sandbox.New(sandbox.Config{Host: p.two.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", Shape: "large"}})
		}, api.CodeInvalid, "large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			made := p.made(1)
			c := p.on(p.two)
			tc.spoil(t, p, c, &made)
			_, err := c.Restore(t.Context(), allocation(2), made)
			if !errors.Is(err, &api.Error{Code: tc.code}) || !strings.Contains(err.Error(), tc.says) || fault.From(err).Hint == "" && tc.code != api.CodeInvalid {
				t.Errorf("%+v", err)
			}
			if left := kept(t, p.two); len(left) != 0 || len(p.two.Provider.Machines()) != 0 {
				t.Errorf("left %q and %d machines", left, len(p.two.Provider.Machines()))
			}
		})
	}
}

// TestStoreDiesInRestore: at whatever call; nothing is left, and the next one works.
func TestStoreDiesInRestore(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	made := p.made(1)
	for at := 1; ; at++ {
		c := p.on(p.two)
		calls := 0
		c.Vault = p.vault(blobtest.NewFaulty(p.below, func(c blobtest.Call) blobtest.Fault {
			calls = max(calls, c.N)
			return blobtest.Fault{Fail: c.N >= at}
		}), p.key)
		_, err := c.Restore(t.Context(), allocation(2), made)
		if calls < at {
			if err != nil || at < 4 {
				t.Errorf("after %d calls: %v", calls, err)
			}
			return
		}
		if !errors.Is(err, &api.Error{Code: api.CodeDeadline}) || len(kept(t, p.two)) != 0 || len(p.two.Provider.Machines()) != 0 {
			t.Errorf("call %d: %v, kept %q", at, err, kept(t, p.two))
		}
	}
}

// TestExportFails: there is no checkpoint that this host alone has.
func TestExportFails(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c, a := p.on(p.one), allocation(1)
	l := acquired(t, c.Sandbox, a)
	c.Vault = p.vault(blobtest.NewFaulty(p.below, func(c blobtest.Call) blobtest.Fault {
		return blobtest.Fault{Fatal: strings.HasPrefix(c.Key, "runtime/manifests/") && c.Op == "put"}
	}), p.key)
	if made, err := c.Create(t.Context(), wanted(a, l)); err == nil {
		t.Errorf("made %+v", made)
	}
	if left := kept(t, p.one); len(left) != 0 || len(p.files("runtime/parts/")) != 0 {
		t.Errorf("kept %q and %q", left, p.files("runtime/parts/"))
	}
	c.Vault = p.vault(p.below, p.key)
	if _, err := c.Create(t.Context(), wanted(a, l)); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

// TestSweepsBothPlaces: what is named stays, here and in the store, also where it
// came from elsewhere; what sessions have left on this host goes when it is old.
func TestSweepsBothPlaces(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first, second := p.made(1), p.made(2)
	for g, made := range map[int64]session.RuntimeCheckpoint{4: first, 5: second} {
		if _, err := p.on(p.two).Restore(t.Context(), allocation(g), made); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.on(p.two).Sweep(t.Context(), allocation(5).Tenure, second.CheckpointID); err != nil {
		t.Fatal(err)
	}
	suffix := "-" + vault.ParseRef(second.CheckpointID).ID
	if left := kept(t, p.two); len(left) != 1 || !strings.HasSuffix(left[0], suffix) || len(p.files("runtime/")) != 3 {
		t.Errorf("kept %q, stored %q", left, p.files("runtime/"))
	}
	if left := kept(t, p.one); len(left) != 2 {
		t.Errorf("the first host has %q", left)
	}
	named := map[string]bool{vault.ParseRef(second.CheckpointID).ID: true}
	for _, tc := range []struct {
		named  map[string]bool
		before time.Time
		want   []int // on each host
	}{
		{nil, time.Now().Add(-time.Hour), []int{2, 1}},
		{named, time.Now().Add(time.Hour), []int{1, 1}},
		{nil, time.Now().Add(time.Hour), []int{0, 0}},
	} {
		var left []int
		for _, f := range []*hosttest.Fixture{p.one, p.two} {
			if err := sandbox.New(sandbox.Config{Host: f.Host}).Tidy(t.Context(), tc.named, tc.before); err != nil {
				t.Error(err)
			}
			left = append(left, len(kept(t, f)))
		}
		if !slices.Equal(left, tc.want) {
			t.Errorf("kept %v, want %v", left, tc.want)
		}
	}
	if err := p.on(p.two).Sweep(t.Context(), allocation(5).Tenure, ""); err != nil || len(p.files("runtime/")) != 0 {
		t.Errorf("%v, stored %q", err, p.files("runtime/"))
	}
}
