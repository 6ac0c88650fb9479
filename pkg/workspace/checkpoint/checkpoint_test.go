package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

// TestHistory: a random life of a disk; every checkpoint of it gives back the
// bytes of its instant, with holes, plain and keyed, and with coarse extents.
func TestHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 4))
			var objects blobtest.Memory
			s := &checkpoint.Store{Objects: &objects, Workers: 1 + r.IntN(4)}
			if seed%2 == 1 {
				s.Key = []byte("secret")
			}
			blocks := 1500
			d := newDisk(blocks, byte(seed))
			d.write(0, 700)
			var parent *workspace.Manifest
			var past []*workspace.Manifest
			var disks [][]byte
			for step := range 12 {
				for range r.IntN(20) {
					at := r.IntN(blocks - 40)
					if n := 1 + r.IntN(40); r.IntN(4) == 0 {
						d.zero(at, n)
					} else {
						d.write(at, n)
					}
				}
				if r.IntN(4) == 0 { // the disk grows
					d.data, blocks = append(d.data, make([]byte, 100*block)...), blocks+100
					d.write(blocks-50, 10)
				}
				req := d.request(workspace.CheckpointID(fmt.Sprintf("c%d", step)), parent)
				if parent != nil && r.IntN(2) == 0 { // all of it may have changed, says the overlay
					req.Changed = []workspace.Extent{{Length: req.Size}}
					req.Base = bytes.NewReader(disks[step-1])
				}
				parent = write(t, s, req)
				past, disks = append(past, parent), append(disks, bytes.Clone(d.data))
			}
			for i, m := range past {
				loaded, err := workspace.Load(t.Context(), &objects, m.Ref)
				if err != nil || loaded.Content() != m.Content() {
					t.Fatalf("load %d: %v", i, err)
				}
				if !bytes.Equal(restore(t, s, loaded), disks[i]) {
					t.Errorf("checkpoint %d has other bytes", i)
				}
				if damage, err := s.Verify(t.Context(), m); err != nil || len(damage) > 0 {
					t.Errorf("verify %d: %v, %v", i, damage, err)
				}
			}
			if holds := keysOf(t, &objects, workspace.HoldPrefix); len(holds) != len(past) {
				t.Errorf("%d holds for %d checkpoints that nobody has released: %v", len(holds), len(past), holds)
			}
		})
	}
}

// TestIncrement: an append and many small rewrites cost little more than their
// bytes, and only the extents are read.
func TestIncrement(t *testing.T) {
	t.Parallel()
	const blocks, rewrites = 8192, 250 // 32 MiB
	d := newDisk(blocks, 1)
	d.write(0, 6000)
	m := &meter{Objects: &blobtest.Memory{}}
	s := &checkpoint.Store{Objects: m}
	first := write(t, s, d.request("c1", nil))
	full := m.put
	base := bytes.Clone(d.data)

	r := rand.New(rand.NewPCG(1, 1))
	d.write(6000, 1024)
	for _, at := range r.Perm(6000)[:rewrites] {
		d.write(at, 1)
	}
	var coarse []workspace.Extent // clusters of 64 KiB
	for _, e := range d.changed {
		coarse = append(coarse, workspace.Extent{Offset: e.Offset &^ 0xffff, Length: (e.Length + 0xffff) &^ 0xffff})
	}
	changed := int64(1024+rewrites) * block
	req := d.request("c2", first)
	req.Source = onlyIn{req.Source, coarse}
	req.Changed, req.Base = coarse, bytes.NewReader(base)
	m.put, m.top = 0, 0
	second := write(t, s, req)
	t.Logf("full %d bytes; increment %d of %d changed: factor %.3f", full, m.put, changed, float64(m.put)/float64(changed))
	if m.put > changed*11/10 {
		t.Errorf("%d bytes stored for %d changed", m.put, changed)
	}
	if m.top > 4 {
		t.Errorf("%d puts at once with 4 workers", m.top)
	}
	if got := second.Checkpoint().Stats; got.Added > m.put || got.Used != (6000+1024)*block {
		t.Errorf("stats: %+v", got)
	}
	if !bytes.Equal(restore(t, s, second), d.data) {
		t.Error("other bytes")
	}
	m.put = 0
	write(t, s, d.request("c3", second))
	if m.put > 64<<10 {
		t.Errorf("%d bytes stored for nothing changed", m.put)
	}
}

// onlyIn is a disk that may be read in some places.
type onlyIn struct {
	io.ReaderAt

	in []workspace.Extent
}

func (o onlyIn) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	for again := true; again && off < end; {
		again = false
		for _, e := range o.in {
			if off >= e.Offset && off < e.Offset+e.Length {
				off, again = e.Offset+e.Length, true
			}
		}
	}
	if off < end {
		return 0, fmt.Errorf("read at %d, where nothing has changed", off)
	}
	return o.ReaderAt.ReadAt(p, end-int64(len(p)))
}

// TestGarbage: a small file that is rewritten for ever does not make the store,
// the manifest or a restore grow for ever.
func TestGarbage(t *testing.T) {
	t.Parallel()
	d := newDisk(2048, 2)
	d.write(0, 1024)
	m := &meter{Objects: &blobtest.Memory{}}
	s := &checkpoint.Store{Objects: m}
	last := write(t, s, d.request("c0", nil))
	r := rand.New(rand.NewPCG(2, 2))
	changed := int64(0)
	for i := range 40 {
		for _, at := range r.Perm(1024)[:100] {
			d.write(at, 1)
			changed += block
		}
		last = write(t, s, d.request(workspace.CheckpointID(fmt.Sprintf("c%d", i+1)), last))
	}
	st := last.Checkpoint().Stats
	m.got = 0
	if !bytes.Equal(restore(t, s, last), d.data) {
		t.Error("other bytes")
	}
	t.Logf("used %d, stored %d in %d packs, read %d, %d runs, put %.2f of changed", st.Used, st.Stored, len(last.Packs), m.got, len(last.Runs), float64(m.put)/float64(changed))
	if st.Stored > 4*st.Used || m.put > 2*changed+st.Used {
		t.Errorf("stats %+v, put %d", st, m.put)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	var objects blobtest.Memory
	s := (&checkpoint.Store{Objects: &objects}).Small(2 << 20)
	d := newDisk(1800, 3)
	d.write(0, 1600)
	m := write(t, s, d.request("c1", nil))
	if len(m.Packs) < 3 {
		t.Fatalf("%d packs", len(m.Packs))
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"missing":   {func([]byte) []byte { return nil }, workspace.ErrMissing},
		"truncated": {func(b []byte) []byte { return b[:len(b)-1] }, workspace.ErrCorrupt},
		"empty":     {func([]byte) []byte { return []byte{} }, workspace.ErrCorrupt},
		"flipped":   {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, workspace.ErrCorrupt},
	} {
		for _, p := range m.Packs {
			var saved []byte
			objects.Damage(p.Key, func(b []byte) []byte { saved = bytes.Clone(b); return c.change(b) })
			var at *workspace.DamageError
			if err := s.Restore(t.Context(), m, discard{}); !errors.As(err, &at) || at.Key != p.Key || !errors.Is(err, c.want) {
				t.Errorf("%s %s: %v", name, p.Key, err)
			}
			found, err := s.Verify(t.Context(), m)
			if err != nil || len(found) != 1 || found[0].Key != p.Key {
				t.Errorf("verify %s %s: %v, %v", name, p.Key, found, err)
			}
			objects.Damage(p.Key, func([]byte) []byte { return saved })
			if name == "missing" {
				_ = objects.Put(t.Context(), p.Key, bytes.NewReader(saved), int64(len(saved)))
			}
		}
	}
	for _, p := range m.Packs[:2] {
		objects.Damage(p.Key, func([]byte) []byte { return nil })
	}
	if found, err := s.Verify(t.Context(), m); err != nil || len(found) != 2 {
		t.Errorf("two packs are missing; verify names %v, %v", found, err)
	}
	if holds := keysOf(t, &objects, workspace.HoldPrefix); len(holds) != 1 {
		t.Errorf("holds of readers are left: %v", holds)
	}
}

type discard struct{ err error }

func (d discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), d.err }

func TestRefused(t *testing.T) {
	t.Parallel()
	var objects blobtest.Memory
	s := &checkpoint.Store{Objects: &objects}
	d := newDisk(100, 4)
	if _, err := s.Write(t.Context(), d.request("zeros", nil)); !errors.Is(err, workspace.ErrEmpty) {
		t.Errorf("a disk of zeros: %v", err)
	}
	d.write(0, 10)
	m := write(t, s, d.request("c1", nil))
	d.zero(0, 10)
	if _, err := s.Write(t.Context(), d.request("c2", m)); !errors.Is(err, workspace.ErrEmpty) {
		t.Errorf("a disk that became zeros: %v", err)
	}
	for name, change := range map[string]func(*checkpoint.Request){
		"no name":      func(r *checkpoint.Request) { r.Checkpoint = "" },
		"no holder":    func(r *checkpoint.Request) { r.Holder = "" },
		"half a block": func(r *checkpoint.Request) { r.Size-- },
		"shrunk":       func(r *checkpoint.Request) { r.Size -= block },
		"own parent":   func(r *checkpoint.Request) { r.Ref = m.Ref },
		"outside":      func(r *checkpoint.Request) { r.Changed = []workspace.Extent{{Offset: r.Size, Length: 1}} },
		"not keyed":    func(r *checkpoint.Request) { p := *m; p.Keyed, r.Parent = true, &p },
	} {
		r := d.request("c3", m)
		change(&r)
		if _, err := s.Write(t.Context(), r); !errors.Is(err, workspace.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Restore(t.Context(), &workspace.Manifest{Ref: ref("x"), Size: block, Created: time.Unix(0, 0)}, discard{}); !errors.Is(err, workspace.ErrEmpty) {
		t.Errorf("restore of nothing: %v", err)
	}
	full := errors.New("disk full")
	if err := s.Restore(t.Context(), m, discard{full}); !errors.Is(err, full) {
		t.Errorf("target that fails: %v", err)
	}
	if err := (&checkpoint.Store{Objects: &objects, Key: []byte("k")}).Restore(t.Context(), m, discard{}); !errors.Is(err, workspace.ErrInvalid) {
		t.Errorf("restore with a key that it was not written with: %v", err)
	}
	r := d.request("c4", m)
	r.Source, r.Changed = onlyIn{}, []workspace.Extent{{Length: block}}
	if _, err := s.Write(t.Context(), r); err == nil || errors.Is(err, workspace.ErrInvalid) {
		t.Errorf("disk that cannot be read: %v", err)
	}
}

// TestTwins: two writers of one request make one checkpoint.
func TestTwins(t *testing.T) {
	t.Parallel()
	var objects blobtest.Memory
	s := &checkpoint.Store{Objects: &objects}
	d := newDisk(1500, 5)
	d.write(0, 1200)
	req := d.request("c1", nil)
	var got [3]*workspace.Manifest
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			r := req
			r.Created = r.Created.Add(time.Duration(i) * time.Hour)
			m, err := s.Write(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			got[i] = m
		})
	}
	all.Wait()
	if got[0].Content() != got[1].Content() || got[1].Content() != got[2].Content() {
		t.Error("twins have different contents")
	}
	if packs := keysOf(t, &objects, workspace.PackPrefix); len(packs) != len(got[0].Packs) {
		t.Errorf("%d packs are stored, %d are needed", len(packs), len(got[0].Packs))
	}
	other := d.request("c1", got[0])
	other.Parent = &workspace.Manifest{Ref: ref("c0"), Size: req.Size}
	if _, err := s.Write(t.Context(), other); err == nil {
		t.Error("another request under a name that is taken has succeeded")
	}
}
