package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// partBytes is the size of a part in these tests.
const partBytes = 4096

func newKey(t *testing.T) string {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// open gives the vault of one host.
func open(t *testing.T, below workspace.Objects, key string) *vault.Vault {
	t.Helper()
	sealed, err := seal.New(below, strings.NewReader(key))
	if err != nil {
		t.Fatal(err)
	}
	v := &vault.Vault{Objects: sealed, Key: sealed.Key()}
	v.Small(partBytes)
	return v
}

func entry(generation int64) vault.Entry {
	return vault.Entry{Scope: sessiontest.Scope("w"), Generation: generation, ID: fmt.Sprintf("s%d", generation)}
}

// stream is an export, with text that must be nowhere.
func stream(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b)
	for at := 0; at+len(canary) < size; at += 1500 {
		copy(b[at:], canary)
	}
	return b
}

const canary = "a page of memory 3f1c9a"

// exports writes in pieces of uneven size.
func exports(data []byte) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		for n := 1; len(data) > 0; n = n*3 + 1 {
			n = min(n, len(data))
			if _, err := w.Write(data[:n]); err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	}
}

func written(t *testing.T, v *vault.Vault, e vault.Entry, data []byte) vault.Ref {
	t.Helper()
	ref, err := v.Write(t.Context(), e, exports(data))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t *testing.T, v *vault.Vault, e vault.Entry, ref vault.Ref) ([]byte, error) {
	t.Helper()
	r, err := v.Open(t.Context(), e.Scope, ref)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// keys are those of a store.
func keys(t *testing.T, o workspace.Objects) []string {
	t.Helper()
	list, err := o.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, b := range list {
		all = append(all, b.Key)
	}
	return all
}

// publishes are the pointers of one session: what it names, nil when it has
// published nothing.
func publishes(p *session.Publication) vault.Pointers {
	return vault.Pointers{
		All: func(context.Context) ([]session.Publication, error) {
			if p == nil {
				return nil, nil
			}
			return []session.Publication{*p}, nil
		},
		Of: func(_ context.Context, s session.Scope) (*session.Publication, error) {
			if s.Key() != sessiontest.Scope("w").Key() {
				return nil, nil
			}
			return p, nil
		},
	}
}

func naming(ref vault.Ref) *session.Publication {
	return &session.Publication{Draft: session.Draft{RuntimeCheckpoint: &session.RuntimeCheckpoint{CheckpointID: ref.String()}}}
}

// later is a host's clock after what is begun has long ended.
func later() time.Time { return time.Now().Add(25 * time.Hour) }

// TestThereAndBack: whatever is exported comes back, on a host with the same key, and
// neither it nor the session's name is in the store.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, partBytes - 1, partBytes, partBytes + 1, 10 * partBytes} {
		below, key, e, data := &blobtest.Memory{}, newKey(t), entry(1), stream(size)
		ref := written(t, open(t, below, key), e, data)
		if back := vault.ParseRef(ref.String()); back != ref || !ref.Portable() {
			t.Errorf("%q reads as %+v", ref, back)
		}
		if got, err := read(t, open(t, below, key), e, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
		stored := append(below.Bytes(""), strings.Join(keys(t, below), "\n")...)
		for _, s := range []string{canary, e.Scope.Session, e.Scope.Key(), "generation", "sha256", ref.Sum} {
			if bytes.Contains(stored, []byte(s)) {
				t.Errorf("%q is in the store", s)
			}
		}
	}
	if _, err := open(t, &blobtest.Memory{}, newKey(t)).Write(t.Context(), entry(1), exports(nil)); err == nil {
		t.Error("nothing was stored as a checkpoint")
	}
	if ref := vault.ParseRef("s1"); ref.Portable() || ref.String() != "s1" {
		t.Errorf("%+v", ref)
	}
}

// TestFailsClosed: what is not what was written gives an error of its kind, which
// names the object, and never another stream.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	below, key, e, data := &blobtest.Memory{}, newKey(t), entry(1), stream(5*partBytes)
	v := open(t, below, key)
	ref, other := written(t, v, e, data), written(t, v, entry(2), stream(6*partBytes))
	for _, object := range slices.DeleteFunc(keys(t, below), func(k string) bool { return strings.Contains(k, "begun") || strings.Contains(k, "s2") }) {
		good := below.Bytes(object)
		others, gone := below.Bytes(strings.ReplaceAll(object, "s1", "s2")), func([]byte) []byte { return nil }
		for name, change := range map[string]func([]byte) []byte{
			"flipped first": func(b []byte) []byte { b[0] ^= 1; return b },
			"flipped last":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"cut":           func(b []byte) []byte { return b[:len(b)-1] },
			"longer":        func(b []byte) []byte { return append(b, 0) },
			"moved":         func([]byte) []byte { return others },
			"gone":          gone,
		} {
			want := workspace.ErrCorrupt
			if name == "gone" {
				want = workspace.ErrMissing
				if err := below.Delete(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			} else {
				below.Damage(object, change)
			}
			got, err := read(t, open(t, below, key), e, ref)
			var at *workspace.DamageError
			if !errors.As(err, &at) || at.Key != object || !errors.Is(err, want) || !bytes.HasPrefix(data, got) {
				t.Errorf("%s %s: %d bytes, %v", object, name, len(got), err)
			}
			if err := below.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := below.Put(t.Context(), object, bytes.NewReader(good), int64(len(good))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := read(t, open(t, below, newKey(t)), e, ref); !errors.Is(err, seal.ErrKey) || errors.Is(err, workspace.ErrCorrupt) {
		t.Errorf("with another key: %v", err)
	}
	stranger := entry(1)
	stranger.Scope.Session = "another"
	if _, err := read(t, v, stranger, ref); !errors.Is(err, session.ErrForeign) {
		t.Errorf("for another session: %v", err)
	}
	if _, err := read(t, v, e, vault.Ref{ID: "s1", Sum: other.Sum}); !errors.Is(err, workspace.ErrCorrupt) {
		t.Errorf("by another's hash: %v", err)
	}
	for _, bad := range []vault.Ref{{ID: "s1"}, {ID: "../s1", Sum: ref.Sum}, {ID: "s1", Sum: "x"}, {Sum: ref.Sum}} {
		if _, err := read(t, v, e, bad); err == nil {
			t.Errorf("%+v was opened", bad)
		}
	}
	if got, err := read(t, v, e, ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("in the end: %d bytes, %v", len(got), err)
	}
}

// TestExportFails: nothing can be read of it, and it goes.
func TestExportFails(t *testing.T) {
	t.Parallel()
	below, key := &blobtest.Memory{}, newKey(t)
	v, trouble := open(t, below, key), errors.New("no memory to read")
	_, err := v.Write(t.Context(), entry(1), func(_ context.Context, w io.Writer) error {
		_, _ = w.Write(stream(5 * partBytes))
		return trouble
	})
	if !errors.Is(err, trouble) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = v.Write(ctx, entry(2), func(_ context.Context, w io.Writer) error {
		cancel()
		_, err := w.Write(stream(5 * partBytes))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []vault.Entry{{}, {Scope: entry(1).Scope, ID: "../x", Generation: 1}, {Scope: entry(1).Scope, ID: "s1"}} {
		if _, err := v.Write(t.Context(), bad, exports([]byte("x"))); err == nil {
			t.Errorf("%+v was stored", bad)
		}
	}
	if left := keys(t, below); len(left) != 2 {
		t.Errorf("besides the marks: %q", left)
	}
	v.Now = later
	if _, err := v.Tidy(t.Context(), publishes(nil)); err != nil || len(keys(t, below)) != 0 {
		t.Errorf("%v, left %q", err, keys(t, below))
	}
}

// TestStormOfFaults: with retries all of it comes through, and a reply that was lost
// does not make a part that nobody has compared.
func TestStormOfFaults(t *testing.T) {
	t.Parallel()
	data := stream(20 * partBytes)
	for seed := range uint64(20) {
		below, key := &blobtest.Memory{}, newKey(t)
		patient := retry.New(blobtest.NewFaulty(below, blobtest.Storm(seed, 4)), retry.Config{First: time.Microsecond, Max: time.Millisecond})
		v := open(t, patient, key)
		ref := written(t, v, entry(1), data)
		if got, err := read(t, v, entry(1), ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("seed %d: %d bytes, %v", seed, len(got), err)
		}
		if err := v.Sweep(t.Context(), sessiontest.Tenure(1), vault.Ref{}); err != nil || len(keys(t, below)) != 0 {
			t.Errorf("seed %d: %v, left %q", seed, err, keys(t, below))
		}
	}
}
