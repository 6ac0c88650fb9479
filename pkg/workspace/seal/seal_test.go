package seal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

func newKey(t *testing.T) string {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func open(t *testing.T, o workspace.Objects, key string) *seal.Objects {
	t.Helper()
	s, err := seal.New(o, strings.NewReader(key))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, o workspace.Objects, key string, off, n int64) ([]byte, error) {
	t.Helper()
	r, err := o.Get(t.Context(), key, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestRanges(t *testing.T) {
	t.Parallel()
	below := &blobtest.Memory{}
	s := open(t, below, newKey(t))
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1, 100, 65504, 65505, 200_000, 1 << 20} {
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		key := fmt.Sprintf("o%d", size)
		if err := s.Put(t.Context(), key, bytes.NewReader(data), int64(size)); err != nil {
			t.Fatal(err)
		}
		if info, err := s.Stat(t.Context(), key); err != nil || info.Size != int64(size) {
			t.Errorf("stat of %d bytes: %d, %v", size, info.Size, err)
		}
		for range 30 {
			off := r.IntN(size)
			n := 1 + r.IntN(size)
			want := data[off:min(size, off+n)]
			if got, err := read(t, s, key, int64(off), int64(n)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d+%d of %d: %d bytes, %v", off, n, size, len(got), err)
			}
		}
		if got, err := read(t, s, key, 0, -1); err != nil || !bytes.Equal(got, data) {
			t.Errorf("all of %d: %d bytes, %v", size, len(got), err)
		}
	}
	if _, err := s.Get(t.Context(), "none", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of nothing: %v", err)
	}
	if err := s.Put(t.Context(), "mark", strings.NewReader(""), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, s, "mark", 0, -1); len(got) != 0 || err != nil {
		t.Errorf("mark: %q, %v", got, err)
	}
}

// TestForged: an object that was changed, cut, moved, or made with the public
// key alone is refused and named.
func TestForged(t *testing.T) {
	t.Parallel()
	below := &blobtest.Memory{}
	key := newKey(t)
	s := open(t, below, key)
	data := bytes.Repeat([]byte("x"), 200_000)
	put := func(o workspace.Objects, key string, data []byte) {
		if err := o.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	put(s, "a", data)
	good := below.Bytes("a")
	flip := func(at int) []byte { b := bytes.Clone(good); b[at] ^= 1; return b }
	for name, bad := range map[string][]byte{
		"moved": good, "head": flip(3), "first": flip(len(good) - 199_000), "last": flip(len(good) - 1), "cut": good[:len(good)-70_000], "tiny": good[:10], "plain": data,
	} {
		put(below, "bad-"+name, bad)
		for _, off := range []int64{0, 150_000} {
			var at *workspace.DamageError
			_, err := read(t, s, "bad-"+name, off, -1)
			if errors.As(err, &at) && at.Key == "bad-"+name && errors.Is(err, workspace.ErrCorrupt) {
				continue
			}
			t.Errorf("%s from %d: %v", name, off, err)
		}
	}
	put(below, "recipient", flip(60)) // which cannot be told from another key
	if _, err := read(t, s, "recipient", 0, -1); err == nil {
		t.Error("read with a damaged recipient")
	}
	if _, err := read(t, open(t, below, newKey(t)), "a", 0, -1); !errors.Is(err, seal.ErrKey) || errors.Is(err, workspace.ErrCorrupt) {
		t.Errorf("another key: %v", err)
	}
	rotated := open(t, below, newKey(t)+key)
	if got, err := read(t, rotated, "a", 0, -1); err != nil || !bytes.Equal(got, data) || !bytes.Equal(rotated.Key(), s.Key()) {
		t.Errorf("after a new key on top: %v", err)
	}
	put(rotated, "b", data)
	if _, err := read(t, s, "b", 0, -1); err == nil {
		t.Error("the old key opens what the new one sealed")
	}
	for _, bad := range []string{"", "# nothing\n", "AGE-SECRET-KEY-1NOTAKEY"} {
		if _, err := seal.New(below, strings.NewReader(bad)); err == nil {
			t.Errorf("key file %q was taken", bad)
		}
	}
}

// TestStoreTroubles: errors of the store below are not called damage.
func TestStoreTroubles(t *testing.T) {
	t.Parallel()
	below := &blobtest.Memory{}
	key := newKey(t)
	data := make([]byte, 300_000)
	if err := open(t, below, key).Put(t.Context(), "a", bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, 100_000} {
		for at := 1; at <= 3; at++ {
			s := open(t, blobtest.NewFaulty(below, func(c blobtest.Call) blobtest.Fault {
				if c.N == at && c.Op == "get" {
					return blobtest.Fault{Cut: 50_000}
				}
				return blobtest.Fault{Fail: c.N == at}
			}), key)
			if _, err := read(t, s, "a", off, -1); err != nil && !errors.Is(err, blobtest.ErrInjected) {
				t.Errorf("call %d of a read from %d: %v", at, off, err)
			} else if err == nil && at < 3 {
				t.Errorf("call %d of a read from %d: no error", at, off)
			}
		}
	}
}

type target []byte

func (d target) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }

// TestNoPlaintext: a checkpoint whose disk is full of a canary leaves neither it
// nor any hash of it in the store, and comes back; damage is named.
func TestNoPlaintext(t *testing.T) {
	t.Parallel()
	below := &blobtest.Memory{}
	s := open(t, below, newKey(t))
	cp := &checkpoint.Store{Objects: s, Key: s.Key()}
	canary := []byte("canary-8c1f")
	disk := bytes.Repeat(append(canary, make([]byte, workspace.Block-len(canary))...), 600)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(disk[300*workspace.Block:])
	copy(disk[400*workspace.Block+17:], canary)
	req := checkpoint.Request{
		Ref: workspace.Ref{Workspace: "w", Checkpoint: "c1"}, Source: bytes.NewReader(disk), Size: int64(len(disk)),
		Created: time.Unix(1_700_000_000, 0), Holder: "h",
	}
	m, err := cp.Write(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	stored := below.Bytes("")
	plain := &blobtest.Memory{}
	open := &checkpoint.Store{Objects: plain}
	pm, err := open.Write(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	needles := [][]byte{canary, []byte("deskfork workspace manifest"), disk[500*workspace.Block:][:64]}
	for i, c := range pm.Chunks {
		needles = append(needles, c.Sum[:], m.Chunks[i].Sum[:])
	}
	for i, n := range needles {
		if bytes.Contains(stored, n) {
			t.Errorf("needle %d is in the encrypted store", i)
		}
		if i != 0 && !bytes.Contains(plain.Bytes(""), n) && i < 4 {
			t.Errorf("needle %d is not found where it must be: the search is blind", i)
		}
	}
	if m.Packs[0].Key == pm.Packs[0].Key || !m.Keyed {
		t.Error("the name of a pack tells its content")
	}
	back := target(make([]byte, len(disk)))
	if err := cp.Restore(t.Context(), m, back); err != nil || !bytes.Equal(back, disk) {
		t.Errorf("restore: %v", err)
	}
	if again, err := cp.Write(t.Context(), req); err != nil || again.Content() != m.Content() {
		t.Errorf("the same request again: %v", err)
	}
	below.Damage(workspace.ManifestKey(m.Ref), func([]byte) []byte { return nil })
	if again, err := cp.Write(t.Context(), req); err != nil || again.Content() != m.Content() {
		t.Errorf("resumed over its own packs: %v", err)
	}
	below.Damage(m.Packs[0].Key, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	var at *workspace.DamageError
	if err := cp.Restore(t.Context(), m, back); !errors.As(err, &at) || at.Key != m.Packs[0].Key {
		t.Errorf("damaged pack: %v", err)
	}
}
