package portable_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/deskfork/deskfork/internal/host/portable"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/vm"
)

// beginning is that of a snapshot which Read takes.
func beginning(tb testing.TB) []byte {
	tb.Helper()
	var snap store.Snapshot
	snap.PauseMS = 12.5
	snap.Sealed.Desktop.Shape, snap.Sealed.Desktop.ImageDigest, snap.Sealed.Desktop.WorkspaceMiB = "small", "sha256:aa", 64
	snap.Sealed.Source.Tokens = []string{"t"}
	snap.Sealed.Attached = store.Attachment{Desktop: "d1", Ref: "w1/c1", Point: "p1"}
	var b bytes.Buffer
	if err := portable.Write(&b, snap); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestFrame: the beginning and a provider's zstd are zstd together, and Read
// takes none of what follows.
func TestFrame(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	file := z.EncodeAll([]byte("the provider's part"), beginning(t))
	r, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "the provider's part" {
		t.Errorf("zstd reads %q, %v", got, err)
	}
	rest := bytes.NewReader(file)
	snap, err := portable.Read(rest)
	if err != nil || snap.ImageDigest != "sha256:aa" || snap.PauseMS != 12.5 {
		t.Errorf("%+v, %v", snap, err)
	}
	if snap.Sealed.Attached.Ref != "" {
		t.Error("a file names a checkpoint of this host's store")
	}
	if got := len(file) - len(beginning(t)); rest.Len() != got {
		t.Errorf("%d bytes are left, want %d", rest.Len(), got)
	}
}

func TestReadRefuses(t *testing.T) {
	good := beginning(t)
	edit := func(at int, b byte) []byte {
		bad := bytes.Clone(good)
		bad[at] = b
		return bad
	}
	for name, raw := range map[string][]byte{
		"nothing": nil, "half": good[:len(good)/2], "text": []byte(strings.Repeat("x", 100)),
		"another frame": edit(0, 'x'), "another kind": edit(10, 'x'), "huge": edit(7, 0xff), "no room": edit(4, 1),
		"no JSON": edit(28, 'x'),
	} {
		if _, err := portable.Read(bytes.NewReader(raw)); !errors.Is(err, vm.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(beginning(f))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		snap, err := portable.Read(bytes.NewReader(raw))
		if err != nil {
			if !errors.Is(err, vm.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		var b bytes.Buffer
		if err := portable.Write(&b, snap); err != nil {
			t.Fatal(err)
		}
		again, err := portable.Read(&b)
		if diff := cmp.Diff(snap.Sealed.Source.Tokens, again.Sealed.Source.Tokens); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
	})
}
