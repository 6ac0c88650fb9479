package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

// TestInterrupted breaks a write at each of its calls of the store, with the
// call done and not done: no checkpoint is to be seen then, and the same request
// makes the one that an undisturbed write makes.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	d := newDisk(700, 6)
	d.write(0, 100)
	d1 := d.request("c1", nil)
	d.write(50, 600)
	want := d.request("c2", nil)
	var calm blobtest.Memory
	s := (&checkpoint.Store{Objects: &calm}).Small(800 << 10)
	want.Parent = write(t, s, d1)
	wanted := write(t, s, want).Content()

	for _, lost := range []bool{false, true} {
		for at := 1; ; at++ {
			var objects blobtest.Memory
			s := (&checkpoint.Store{Objects: &objects}).Small(800 << 10)
			req := want
			req.Parent = write(t, s, d1)
			broke := false
			faulty := blobtest.NewFaulty(&objects, func(c blobtest.Call) blobtest.Fault {
				broke = broke || c.N >= at
				// What comes after the first fault is gone too.
				return blobtest.Fault{Fatal: broke && (!lost || c.N > at), Lost: lost && c.N == at}
			})
			_, err := (&checkpoint.Store{Objects: faulty}).Small(800<<10).Write(t.Context(), req)
			if !broke {
				if err != nil || at < 10 {
					t.Fatalf("%d calls, %v", at, err)
				}
				break
			}
			if !errors.Is(err, blobtest.ErrInjected) {
				t.Fatalf("call %d lost %v: %v", at, lost, err)
			}
			m, err := s.Write(t.Context(), req)
			if err != nil || m.Content() != wanted {
				t.Fatalf("call %d lost %v: resumed: %v", at, lost, err)
			}
			if packs := keysOf(t, &objects, "packs/w/c2/"); len(packs) != 3 {
				t.Errorf("call %d lost %v: %d packs", at, lost, len(packs))
			}
			if !bytes.Equal(restore(t, s, m), d.data) {
				t.Errorf("call %d lost %v: other bytes", at, lost)
			}
		}
	}
}

// TestLeftovers: what an earlier attempt left is read, not believed.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	d := newDisk(300, 7)
	d.write(0, 200)
	req := d.request("c1", nil)
	var objects blobtest.Memory
	s := &checkpoint.Store{Objects: &objects}
	m := write(t, s, req)
	objects.Damage(workspace.ManifestKey(m.Ref), func([]byte) []byte { return nil })
	objects.Damage(m.Packs[0].Key, func(b []byte) []byte { b[9] ^= 1; return b })
	var at *workspace.DamageError
	if _, err := s.Write(t.Context(), req); !errors.As(err, &at) || at.Key != m.Packs[0].Key {
		t.Errorf("write over damaged leftovers: %v", err)
	}
	objects.Damage(m.Packs[0].Key, func([]byte) []byte { return nil })
	_ = objects.Put(t.Context(), workspace.ManifestKey(m.Ref), strings.NewReader("no manifest"), 11)
	if _, err := s.Write(t.Context(), req); !errors.As(err, &at) || at.Key != workspace.ManifestKey(m.Ref) {
		t.Errorf("write over a damaged manifest: %v", err)
	}
}

// TestCondemned: a parent that a sweep drops before, during or after a write
// makes it fail; without a parent it succeeds.
func TestCondemned(t *testing.T) {
	t.Parallel()
	d := newDisk(60, 8)
	d.write(0, 40)
	first := d.request("c1", nil)
	d.write(20, 20)
	second := d.request("c2", nil)
	for _, who := range []workspace.Ref{ref("c1"), ref("c2")} {
		for at := 1; at <= 12; at++ {
			var objects blobtest.Memory
			req := second
			req.Parent = write(t, &checkpoint.Store{Objects: &objects}, first)
			last := 0
			faulty := blobtest.NewFaulty(&objects, func(c blobtest.Call) blobtest.Fault {
				if c.N == at {
					_ = objects.Put(t.Context(), workspace.TombPrefix+who.String()+"/s", strings.NewReader(""), 0)
				}
				if c.Op == "list" && strings.HasPrefix(c.Key, workspace.TombPrefix+who.String()) {
					last = c.N
				}
				return blobtest.Fault{}
			})
			_, err := (&checkpoint.Store{Objects: faulty}).Write(t.Context(), req)
			if seen := at <= last; seen != errors.Is(err, workspace.ErrCondemned) || !seen && err != nil {
				t.Errorf("tomb of %s before call %d, last look %d: %v", who, at, last, err)
			}
		}
	}
	var objects blobtest.Memory
	s := &checkpoint.Store{Objects: &objects}
	second.Parent = write(t, s, first)
	objects.Damage(workspace.ManifestKey(ref("c1")), func([]byte) []byte { return nil })
	if _, err := s.Write(t.Context(), second); !errors.Is(err, workspace.ErrMissing) {
		t.Errorf("parent without manifest: %v", err)
	}
	second.Parent, second.Ref = nil, ref("c3")
	if m := write(t, s, second); !bytes.Equal(restore(t, s, m), d.data) {
		t.Error("other bytes")
	}
}

// TestStorm: with retries between, a bad store makes a checkpoint slow, not
// wrong.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			objects := &blobtest.Memory{}
			s := (&checkpoint.Store{Objects: retry.New(blobtest.NewFaulty(objects, blobtest.Storm(seed, 3)), retry.Config{})}).Small(1 << 20)
			d := newDisk(1200, byte(seed))
			d.write(0, 900)
			var parent *workspace.Manifest
			for i := range 3 {
				m := write(t, s, d.request(workspace.CheckpointID(fmt.Sprintf("c%d", i)), parent))
				if !bytes.Equal(restore(t, s, m), d.data) {
					t.Errorf("seed %d checkpoint %d: other bytes", seed, i)
				}
				parent = m
				d.write(i*200, 600)
			}
		})
	}
}
