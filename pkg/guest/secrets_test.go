package guest_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/deskfork/deskfork/pkg/guest"
)

func TestSeal(t *testing.T) {
	t.Parallel()
	key, err := guest.NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []guest.Secrets{{}, {Env: map[string]string{"TOKEN": "hush"}, Input: []byte("in\x00put"), HasInput: true}} {
		sealed, err := guest.Seal(key.Public(), want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := key.Open(sealed); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		again, err := guest.Seal(key.Public(), want)
		if err != nil || bytes.Equal(again, sealed) || bytes.Contains(sealed, []byte("hush")) {
			t.Errorf("sealed %q and %q, %v", sealed, again, err)
		}
		other, err := guest.NewSealKey()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Open(sealed); err == nil {
			t.Error("another key opens it")
		}
		for i := range sealed {
			sealed[i] ^= 1
			if _, err := key.Open(sealed); err == nil {
				t.Errorf("it opens with byte %d changed", i)
			}
			sealed[i] ^= 1
		}
	}
	if _, err := guest.Seal([]byte("short"), guest.Secrets{}); err == nil {
		t.Error("what is no key is taken")
	}
	if _, err := guest.Seal(key.Public(), guest.Secrets{Input: make([]byte, guest.MaxSealed)}); err == nil {
		t.Error("too much is taken")
	}
}

// FuzzOpen: foreign bytes are an error.
func FuzzOpen(f *testing.F) {
	key, err := guest.NewSealKey()
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := guest.Seal(key.Public(), guest.Secrets{Env: map[string]string{"A": "b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{})
	f.Add(sealed[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := key.Open(b); err == nil && !bytes.Equal(b, sealed) {
			t.Errorf("%x opens", b)
		}
	})
}
