package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// A blob store is what workspaces want of one.
var _ workspace.Objects = blob.Store(nil)

func ref(c workspace.CheckpointID) workspace.Ref { return workspace.Ref{Workspace: "w", Checkpoint: c} }

func sample() *workspace.Manifest {
	return &workspace.Manifest{
		Ref: ref("c2"), Parent: ref("c1"), Created: time.Unix(1_700_000_000, 0).UTC(), Size: 100 * workspace.Block,
		Packs: []workspace.Pack{{workspace.PackKey(ref("c1"), 0, workspace.Hash{1}), 500}, {workspace.PackKey(ref("c2"), 0, workspace.Hash{2}), 300}},
		Chunks: []workspace.Chunk{
			{Sum: workspace.Hash{7}, Pack: 0, Offset: 0, Stored: 200, Blocks: 10},
			{Sum: workspace.Hash{8}, Pack: 0, Offset: 300, Stored: 200, Blocks: 1},
			{Sum: workspace.Hash{9}, Pack: 1, Offset: 0, Stored: 300, Blocks: 5},
		},
		Runs: []workspace.Run{{0, 4, 0, 0}, {4, 1, 2, 4}, {5, 5, 0, 5}, {50, 2, 2, 0}, {99, 1, 1, 0}},
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	m := sample()
	data := m.Encode()
	got, err := workspace.Decode(data)
	if diff := cmp.Diff(m, got); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}
	want := workspace.Checkpoint{
		Ref: ref("c2"), Parent: ref("c1"), Content: m.Content(), Size: m.Size, Created: m.Created,
		Stats: workspace.Stats{Used: 13 * workspace.Block, Stored: 800, Added: 300},
	}
	if diff := cmp.Diff(want, got.Checkpoint()); diff != "" || len(want.Content) != 71 {
		t.Error(diff)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1
		if _, err := workspace.Decode(bad); err == nil {
			t.Errorf("decoded with bit %d flipped", i)
		}
		if _, err := workspace.Decode(data[:i]); err == nil {
			t.Errorf("decoded %d of %d bytes", i, len(data))
		}
	}
	if _, err := workspace.Decode(append(slices.Clone(data), 0)); err == nil {
		t.Error("decoded with a byte behind the end")
	}
}

func TestManifestInvalid(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*workspace.Manifest){
		"no name":              func(m *workspace.Manifest) { m.Ref = workspace.Ref{} },
		"name with a slash":    func(m *workspace.Manifest) { m.Workspace = "a/b" },
		"own parent":           func(m *workspace.Manifest) { m.Parent = m.Ref },
		"half a parent":        func(m *workspace.Manifest) { m.Parent.Workspace = "" },
		"no size":              func(m *workspace.Manifest) { m.Size = 0 },
		"half a block":         func(m *workspace.Manifest) { m.Size++ },
		"fraction of a second": func(m *workspace.Manifest) { m.Created = m.Created.Add(1) },
		"pack of another tree": func(m *workspace.Manifest) { m.Packs[0].Key = "secrets/x/y/00000-" + strings.Repeat("0", 64) },
		"pack above":           func(m *workspace.Manifest) { m.Packs[0].Key = "packs/../c/00000-" + strings.Repeat("0", 64) },
		"packs in disorder":    func(m *workspace.Manifest) { slices.Reverse(m.Packs) },
		"pack without chunk":   func(m *workspace.Manifest) { m.Chunks, m.Runs = m.Chunks[:2], m.Runs[:1] },
		"chunk behind pack":    func(m *workspace.Manifest) { m.Chunks[1].Offset = 301 },
		"chunks overlap":       func(m *workspace.Manifest) { m.Chunks[1].Offset = 199 },
		"chunk too large":      func(m *workspace.Manifest) { m.Chunks[0].Blocks = 257 },
		"chunk without run":    func(m *workspace.Manifest) { m.Runs = m.Runs[:4] },
		"run overlaps":         func(m *workspace.Manifest) { m.Runs[0].Count = 5 },
		"run behind the disk":  func(m *workspace.Manifest) { m.Runs[4].Start = 100 },
		"run behind the chunk": func(m *workspace.Manifest) { m.Runs[4].From = 1 },
		"runs not joined":      func(m *workspace.Manifest) { m.Runs[1] = workspace.Run{4, 1, 0, 4} },
		"empty run":            func(m *workspace.Manifest) { m.Runs[0].Count = 0 },
		"no chunk":             func(m *workspace.Manifest) { m.Runs[0].Chunk = 3 },
		"nothing": func(m *workspace.Manifest) {
			m.Packs, m.Chunks, m.Runs = nil, nil, nil
		},
	} {
		m := sample()
		change(m)
		if err := m.Validate(); err == nil {
			t.Errorf("%s: valid", name)
		}
		if _, err := workspace.Decode(m.Encode()); err == nil && name != "fraction of a second" { // which is not encoded
			t.Errorf("%s: decoded", name)
		}
	}
}

// TestOneForm: a number with a longer encoding is refused.
func TestOneForm(t *testing.T) {
	t.Parallel()
	data := sample().Encode()
	at := bytes.IndexByte(data, '\n') + 1
	long := slices.Insert(slices.Clone(data[:len(data)-32]), at+1, 0)
	long[at] |= 0x80
	sum := sha256.Sum256(long)
	if _, err := workspace.Decode(append(long, sum[:]...)); !errors.Is(err, workspace.ErrInvalid) {
		t.Errorf("decode: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte("deskfork workspace manifest 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksum is given, so that what is below it is reached.
		sum := sha256.Sum256(data)
		for _, in := range [][]byte{data, append(slices.Clone(data), sum[:]...)} {
			m, err := workspace.Decode(in)
			if err != nil {
				continue
			}
			if !bytes.Equal(m.Encode(), in) || m.Validate() != nil {
				t.Errorf("decoded what Encode does not write: %+v", m)
			}
		}
	})
}

func TestHolds(t *testing.T) {
	t.Parallel()
	var s blobtest.Memory
	ctx, until := t.Context(), time.Unix(2_000_000_000, 0)
	for _, h := range []struct {
		holder string
		until  time.Time
	}{{"a", until}, {"a", until}, {"a", until.Add(time.Hour)}, {"ab", until}} {
		if err := workspace.Hold(ctx, &s, ref("c"), h.holder, h.until); err != nil {
			t.Fatal(err)
		}
	}
	if err := workspace.Hold(ctx, &s, ref("c"), "a.b", until); !errors.Is(err, workspace.ErrInvalid) {
		t.Errorf("holder with a dot: %v", err)
	}
	if err := workspace.Release(ctx, &s, ref("c"), "a"); err != nil {
		t.Fatal(err)
	}
	left, err := s.List(ctx, workspace.HoldPrefix, "", 10)
	if err != nil || len(left) != 1 || !workspace.HeldUntil(left[0].Key).Equal(until) {
		t.Errorf("left: %v, %v", left, err)
	}
	if got, rest, err := workspace.RefOf(left[0].Key, workspace.HoldPrefix); got != ref("c") || rest != "ab.2000000000" || err != nil {
		t.Errorf("ref of %s: %v, %q, %v", left[0].Key, got, rest, err)
	}
	if !workspace.HeldUntil("holds/w/c/odd").After(time.Now().AddDate(1000, 0, 0)) {
		t.Error("a hold that cannot be read ends")
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	var s blobtest.Memory
	m := sample()
	put := func(r workspace.Ref, data []byte) {
		if err := s.Put(t.Context(), workspace.ManifestKey(r), bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	put(m.Ref, m.Encode())
	put(ref("other"), m.Encode())
	put(ref("short"), m.Encode()[:90])
	put(ref("empty"), nil)
	if got, err := workspace.Load(t.Context(), &s, m.Ref); err != nil || got.Content() != m.Content() {
		t.Errorf("load: %v", err)
	}
	for c, want := range map[workspace.CheckpointID]error{
		"other": workspace.ErrCorrupt, "short": workspace.ErrCorrupt, "empty": workspace.ErrCorrupt, "none": workspace.ErrMissing,
	} {
		_, err := workspace.Load(t.Context(), &s, ref(c))
		var damage *workspace.DamageError
		if !errors.Is(err, want) || !errors.As(err, &damage) || damage.Key != "checkpoints/w/"+string(c) {
			t.Errorf("load %s: %v", c, err)
		}
	}
	if err := workspace.Usable(t.Context(), &s, m.Ref); err != nil {
		t.Error(err)
	}
	if err := workspace.Usable(t.Context(), &s, ref("none")); !errors.Is(err, workspace.ErrMissing) {
		t.Errorf("usable: %v", err)
	}
}
