package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// put makes a snapshot with files of its own; it stands on those in below.
func put(t *testing.T, s *store.Store, id vm.SnapshotID, keep bool, below ...store.Path) store.Meta {
	t.Helper()
	if err := s.Begin(id); err != nil {
		t.Fatal(err)
	}
	defer s.End(id)
	m := store.Meta{
		Snapshot: vm.Snapshot{
			ID: id, Template: id, Shape: vm.Shape{Name: "small", VCPUs: 1, MemoryMiB: 64}, Width: 640, Height: 480,
			Created: time.Unix(1000, 0).UTC(), Kept: keep,
		},
		SystemBytes: 1 << 20, WorkspaceBytes: 1 << 20,
	}
	m.System = slices.Concat([]store.Path{m.Own(store.System)}, below)
	m.Workspace = []store.Path{m.Own(store.Workspace)}
	paths := slices.Concat(m.System, m.Workspace, []store.Path{m.Own(store.State), m.Own(store.RAM)})
	for _, p := range paths[:1] {
		write(t, s, p)
	}
	for _, p := range paths[len(m.System):] {
		write(t, s, p)
	}
	if err := s.Seal(t.Context(), &m, paths, keep); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t *testing.T, s *store.Store, p store.Path) {
	t.Helper()
	if err := os.WriteFile(s.File(p), []byte("content of "+p), 0o600); err != nil {
		t.Fatal(err)
	}
}

func there(t *testing.T, s *store.Store) (all []string) {
	t.Helper()
	root := filepath.Dir(filepath.Dir(s.File("x/y")))
	files, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		rel, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rel)
	}
	return all
}

func nobody() ([]store.Path, error) { return nil, nil }

func TestCollectKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	s := store.New(t.TempDir(), false)
	a := put(t, s, "a", true)
	put(t, s, "b", true, a.Own(store.System))
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Collect(nobody); err != nil {
		t.Fatal(err)
	}
	if got := there(t, s); !slices.Equal(got, []string{"a/system.qcow2", "b/meta.json", "b/ram", "b/state", "b/system.qcow2", "b/workspace.qcow2"}) {
		t.Errorf("after the removal of a: %v", got)
	}
	if err := s.Remove("b"); err != nil {
		t.Fatal(err)
	}
	machine := func() ([]store.Path, error) { return []store.Path{store.At("b", store.RAM)}, nil }
	if err := s.Collect(machine); err != nil {
		t.Fatal(err)
	}
	if got := there(t, s); !slices.Equal(got, []string{"b/ram"}) {
		t.Errorf("with a machine on b's memory: %v", got)
	}
	if err := s.Begin("b"); !errors.Is(err, vm.ErrExists) {
		t.Errorf("Begin of an id whose memory is in use = %v", err)
	}
	if err := s.Collect(nobody); err != nil {
		t.Fatal(err)
	}
	if got := there(t, s); len(got) != 0 {
		t.Errorf("at the end there is %v", got)
	}
}

// TestCollectIsCareful: what is pinned or being made stays, and nothing goes
// when it is not known what is needed.
func TestCollectIsCareful(t *testing.T) {
	t.Parallel()
	s := store.New(t.TempDir(), false)
	put(t, s, "a", false)
	_, release, err := s.Pin("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Remove("a"), s.Begin("new")); err != nil {
		t.Fatal(err)
	}
	write(t, s, store.At("new", store.State))
	if err := s.Collect(nobody); err != nil {
		t.Fatal(err)
	}
	if got := there(t, s); len(got) != 5 {
		t.Errorf("pinned and new: %v", got)
	}
	release()
	release()
	s.End("new")
	broken := errors.New("broken journal")
	if err := s.Collect(func() ([]store.Path, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("Collect = %v", err)
	}
	put(t, s, "b", true)
	if err := os.WriteFile(s.File("b/meta.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Collect(nobody); !errors.Is(err, vm.ErrCorrupt) {
		t.Errorf("Collect beside a snapshot that cannot be read = %v", err)
	}
	if got := there(t, s); len(got) != 10 {
		t.Errorf("after refusals: %v", got)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keep   bool
		change func(t *testing.T, path string)
		want   error
	}{
		"untouched":            {true, func(*testing.T, string) {}, nil},
		"touched, same bytes":  {true, touch, nil},
		"touched, not hashed":  {false, touch, vm.ErrCorrupt},
		"another byte":         {true, flip, vm.ErrCorrupt},
		"shorter":              {true, func(t *testing.T, p string) { t.Helper(); must(t, os.Truncate(p, 3)) }, vm.ErrCorrupt},
		"gone":                 {true, func(t *testing.T, p string) { t.Helper(); must(t, os.Remove(p)) }, vm.ErrCorrupt},
		"a link to the bytes":  {true, link, vm.ErrCorrupt},
		"gone, and not hashed": {false, func(t *testing.T, p string) { t.Helper(); must(t, os.Remove(p)) }, vm.ErrCorrupt},
	} {
		for _, file := range []string{store.State, store.RAM, store.System} {
			t.Run(name+" "+file, func(t *testing.T) {
				t.Parallel()
				s := store.New(t.TempDir(), false)
				m := put(t, s, "a", tt.keep)
				tt.change(t, s.File(m.Own(file)))
				m, err := s.Get("a")
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(t.Context(), m); !errors.Is(err, tt.want) {
					t.Errorf("Verify = %v, want %v", err, tt.want)
				}
			})
		}
	}
}

// TestVerifyAgain: what was found right is not read again while nobody has changed
// it, and is found out when somebody has, who hides the time of it.
func TestVerifyAgain(t *testing.T) {
	t.Parallel()
	s := store.New(t.TempDir(), false)
	m := put(t, s, "a", true)
	file := s.File(m.Own(store.State))
	good, err := os.ReadFile(file)
	must(t, err)
	info, err := os.Stat(file)
	must(t, err)
	s.Settled(0)
	must(t, s.Verify(t.Context(), m))
	if got := s.Proven(); got != len(m.Parts) {
		t.Errorf("%d files are known to be right, of %d", got, len(m.Parts))
	}
	for name, text := range map[string][]byte{"another byte": append([]byte{good[0] ^ 1}, good[1:]...), "as it was": good} {
		must(t, os.WriteFile(file, text, 0o600))
		must(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
		want := vm.ErrCorrupt
		if name == "as it was" {
			want = nil
		}
		for range 2 {
			if err := s.Verify(t.Context(), m); !errors.Is(err, want) {
				t.Errorf("%s: Verify = %v, want %v", name, err, want)
			}
		}
	}
	young := store.New(t.TempDir(), false)
	must(t, young.Verify(t.Context(), put(t, young, "a", true)))
	if got := young.Proven(); got != 0 {
		t.Errorf("%d files are known to be right that may change unseen", got)
	}
}

func TestVerifyItsDescription(t *testing.T) {
	t.Parallel()
	s := store.New(t.TempDir(), false)
	m := put(t, s, "a", true)
	m.Snapshot.Shape.MemoryMiB *= 2
	if err := s.Verify(t.Context(), m); !errors.Is(err, vm.ErrCorrupt) {
		t.Errorf("Verify of a changed shape = %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, p string) {
	t.Helper()
	must(t, os.Chtimes(p, time.Unix(5, 0), time.Unix(5, 0)))
}

// flip changes a byte and puts the times back.
func flip(t *testing.T, p string) {
	t.Helper()
	info, err := os.Stat(p)
	must(t, err)
	b, err := os.ReadFile(p)
	must(t, err)
	b[0] ^= 1
	must(t, os.WriteFile(p, b, 0o600))
	must(t, os.Chtimes(p, info.ModTime(), info.ModTime()))
}

func link(t *testing.T, p string) {
	t.Helper()
	must(t, os.Rename(p, p+".moved"))
	must(t, os.Symlink(p+".moved", p))
}

func TestTidy(t *testing.T) {
	t.Parallel()
	s := store.New(t.TempDir(), false)
	put(t, s, "a", false)
	put(t, s, "b", true)
	dir, err := s.Scratch()
	must(t, err)
	must(t, s.Tidy())
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0].Snapshot.ID != "b" {
		t.Errorf("List = %+v, %v", all, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scratch is still there: %v", err)
	}
}
