package depot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/depot"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

const (
	partBytes = 4096 // the size of a part in these tests
	canary    = "a page of memory 3f1c9a"
	project   = "ours"
)

// stream is an exported snapshot, with text that must be nowhere.
func stream(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b)
	for at := 0; at+len(canary) < size; at += 1500 {
		copy(b[at:], canary)
	}
	return b
}

// snapshots are those of one host, by name.
type snapshots struct {
	data  map[string][]byte
	fails error // of an export, in the midst of it
	ends  bool  // an import reads its beginning alone, and believes it
}

func (s *snapshots) Get(_ context.Context, of, ref string) (api.Snapshot, error) {
	if _, ok := s.data[ref]; !ok || of != project {
		return api.Snapshot{}, fault.NotFound("snapshot", ref)
	}
	return api.Snapshot{ID: ref, Name: ref, ImageDigest: "sha256:1", Shape: "medium", Hypervisor: "fake 1", Accelerator: "tcg", Digest: "d"}, nil
}

func (s *snapshots) Export(_ context.Context, _, ref string, w io.Writer) error {
	data := s.data[ref]
	for n := 1; len(data) > 0; n = n*3 + 1 {
		n = min(n, len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return s.fails
}

func (s *snapshots) Import(_ context.Context, _, name string, r io.Reader) (api.Snapshot, error) {
	if s.ends {
		r = io.LimitReader(r, 1)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return api.Snapshot{}, errors.New("a bad stream") // as one says who knows of streams alone
	}
	s.data[name] = data
	return api.Snapshot{ID: name, Name: name}, nil
}

func (s *snapshots) Remove(_ context.Context, _, ref string) error {
	delete(s.data, ref)
	return nil
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// host is one with a store and a key, and the snapshots that it has.
func host(t *testing.T, below workspace.Objects, key string, data map[string][]byte) (*depot.Desk, *snapshots) {
	t.Helper()
	sealed, err := seal.New(below, strings.NewReader(key))
	if err != nil {
		t.Fatal(err)
	}
	if data == nil {
		data = map[string][]byte{}
	}
	has := &snapshots{data: data}
	d := &depot.Desk{Snapshots: has, Objects: sealed, Key: sealed.Key(), Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	d.Small(partBytes)
	return d, has
}

func exported(t *testing.T, d *depot.Desk, ref, name string) api.SnapshotExport {
	t.Helper()
	made, err := d.Export(t.Context(), project, ref, name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func keys(t *testing.T, o workspace.Objects) []string {
	t.Helper()
	all := []string{}
	if err := workspace.All(t.Context(), o, "", func(i workspace.Info) error { all = append(all, i.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// is fails unless an error has a code.
func is(t *testing.T, what string, err error, want api.Code) {
	t.Helper()
	if err == nil || fault.From(err).Code != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestThereAndBack: what one host has stored another one gets, from whichever kind
// of store, and in the store nobody reads it.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) blob.Store{
		"memory": func(*testing.T) blob.Store { return &blobtest.Memory{} },
		"directory": func(t *testing.T) blob.Store {
			t.Helper()
			s, err := dir.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below, key := open(t), newKey(t)
			for _, size := range []int{1, partBytes - 1, partBytes, partBytes + 1, 10 * partBytes} {
				data, as := stream(size), fmt.Sprint("of-", size)
				d, _ := host(t, below, key, map[string][]byte{"login": data})
				made := exported(t, d, "login", as)
				if made.Name != as || made.Snapshot != "login" || made.Bytes != int64(size) || made.Hypervisor != "fake 1" {
					t.Errorf("made %+v", made)
				}
				there, has := host(t, below, key, nil)
				if list, err := there.List(t.Context(), project); err != nil || len(list) != 1 || list[0] != made {
					t.Errorf("listed %+v, %v", list, err)
				}
				if snap, err := there.Import(t.Context(), project, as, "back"); err != nil || snap.ID != "back" || !bytes.Equal(has.data["back"], data) {
					t.Errorf("%d bytes came back as %d, %v", size, len(has.data["back"]), err)
				}
				if list, err := there.List(t.Context(), "theirs"); err != nil || len(list) != 0 {
					t.Errorf("another project sees %+v, %v", list, err)
				}
				_, err := there.Import(t.Context(), "theirs", as, "stolen")
				is(t, "another project's import", err, api.CodeNotFound)
				for _, k := range keys(t, below) {
					r, err := below.Get(t.Context(), k, 0, -1)
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(r)
					r.Close()
					if err != nil || bytes.Contains(b, []byte(canary)) || bytes.Contains(b, []byte("fake 1")) || strings.Contains(k, project) {
						t.Errorf("%s tells what is in it, %v", k, err)
					}
				}
				if err := there.Remove(t.Context(), project, as); err != nil || len(keys(t, below)) != 0 {
					t.Errorf("removed: %v, left %q", err, keys(t, below))
				}
			}
		})
	}
}

// TestFailsClosed: of an export that is not what was written nothing is kept, and the
// object is named.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	below, key := &blobtest.Memory{}, newKey(t)
	d, has := host(t, below, key, map[string][]byte{"login": stream(3 * partBytes)})
	exported(t, d, "login", "one")
	objects := keys(t, below)
	if len(objects) != 4 {
		t.Fatalf("objects %q", objects)
	}
	for i, object := range objects {
		good, other := below.Bytes(object), below.Bytes(objects[(i+1)%len(objects)])
		for name, change := range map[string]func([]byte) []byte{
			"flipped": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"cut":     func(b []byte) []byte { return b[:len(b)-1] },
			"longer":  func(b []byte) []byte { return append(b, 0) },
			"moved":   func([]byte) []byte { return other },
			"gone":    nil,
		} {
			below.Damage(object, func(b []byte) []byte {
				if change == nil {
					return b
				}
				return change(b)
			})
			if change == nil {
				if err := below.Delete(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			for _, ends := range []bool{false, true} {
				has.ends = ends
				_, err := d.Import(t.Context(), project, "one", "back")
				var at *workspace.DamageError
				switch {
				case change == nil && strings.Contains(object, "/names/"):
					is(t, "no manifest", err, api.CodeNotFound)
				case !errors.As(err, &at) || at.Key != object:
					t.Errorf("%s %s: %v", object, name, err)
				default:
					is(t, object+" "+name, err, api.CodeImageCorrupt)
				}
				if _, kept := has.data["back"]; kept {
					t.Errorf("%s %s: it was kept", object, name)
				}
			}
			list, err := d.List(t.Context(), project)
			if inName := strings.Contains(object, "/names/"); err != nil || inName && change != nil && (len(list) != 1 || !strings.Contains(list[0].Fault, object)) {
				t.Errorf("%s %s: listed %+v, %v", object, name, list, err)
			}
			if err := below.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := below.Put(t.Context(), object, bytes.NewReader(good), int64(len(good))); err != nil {
				t.Fatal(err)
			}
		}
	}
	has.ends = false
	if _, err := d.Import(t.Context(), project, "one", "back"); err != nil {
		t.Errorf("in the end: %v", err)
	}
}

// TestRefusals: what cannot be done is said, and leaves nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	below, key := &blobtest.Memory{}, newKey(t)
	d, has := host(t, below, key, map[string][]byte{"login": stream(3 * partBytes), "other": stream(partBytes)})
	exported(t, d, "login", "one")
	before := keys(t, below)
	_, err := d.Export(t.Context(), project, "other", "one")
	is(t, "a taken name", err, api.CodeConflict)
	_, err = d.Export(t.Context(), project, "nope", "two")
	is(t, "no snapshot", err, api.CodeNotFound)
	_, err = d.Import(t.Context(), project, "nope", "back")
	is(t, "no export", err, api.CodeNotFound)
	is(t, "removal of no export", d.Remove(t.Context(), project, "nope"), api.CodeNotFound)
	has.fails = errors.New("no memory to read")
	if _, err := d.Export(t.Context(), project, "other", "two"); !errors.Is(err, has.fails) {
		t.Errorf("an export that fails: %v", err)
	}
	if now := keys(t, below); !slices.Equal(now, before) {
		t.Errorf("left %q, had %q", now, before)
	}
	stranger, _ := host(t, below, newKey(t), nil)
	if list, err := stranger.List(t.Context(), project); err != nil || len(list) != 0 {
		t.Errorf("with another key: %+v, %v", list, err)
	}
	open := &depot.Desk{Snapshots: has, Objects: below, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	_, err = open.Export(t.Context(), project, "login", "two")
	is(t, "export to a store that does not encrypt", err, api.CodePrecondition)
	_, err = open.Import(t.Context(), project, "one", "back")
	is(t, "import from one", err, api.CodePrecondition)
	_, err = open.List(t.Context(), project)
	is(t, "list of one", err, api.CodePrecondition)
}

// TestLeftovers: parts that no manifest names go when they are old, and no others,
// and a damaged export can be removed.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	below, key := &blobtest.Memory{}, newKey(t)
	d, _ := host(t, below, key, map[string][]byte{"login": stream(3 * partBytes)})
	exported(t, d, "login", "one")
	exported(t, d, "login", "two")
	for _, object := range keys(t, below) {
		if strings.HasSuffix(object, "/names/one") {
			below.Damage(object, func(b []byte) []byte { return b[:len(b)-1] })
		}
	}
	if err := d.Remove(t.Context(), project, "one"); err != nil {
		t.Error(err)
	}
	count := func(want int, when string) {
		t.Helper()
		if left := keys(t, below); len(left) != want {
			t.Errorf("%s: %d objects, want %d: %q", when, len(left), want, left)
		}
	}
	count(7, "its parts stay for now")
	exported(t, d, "login", "three")
	count(11, "they are young")
	d.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	exported(t, d, "login", "four")
	count(12, "they are old")
	for _, name := range []string{"two", "three", "four"} {
		if _, err := d.Import(t.Context(), project, name, "back"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStormOfFaults: with retries all of it comes through.
func TestStormOfFaults(t *testing.T) {
	t.Parallel()
	data := stream(20 * partBytes)
	for seed := range uint64(10) {
		below := &blobtest.Memory{}
		patient := retry.New(blobtest.NewFaulty(below, blobtest.Storm(seed, 4)), retry.Config{First: time.Microsecond, Max: time.Millisecond})
		d, has := host(t, patient, newKey(t), map[string][]byte{"login": data})
		exported(t, d, "login", "one")
		if _, err := d.Import(t.Context(), project, "one", "back"); err != nil || !bytes.Equal(has.data["back"], data) {
			t.Errorf("seed %d: %d bytes, %v", seed, len(has.data["back"]), err)
		}
		if err := d.Remove(t.Context(), project, "one"); err != nil || len(keys(t, below)) != 0 {
			t.Errorf("seed %d: %v, left %q", seed, err, keys(t, below))
		}
	}
}
