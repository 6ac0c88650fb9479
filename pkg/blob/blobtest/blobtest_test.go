package blobtest_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Store { return &blobtest.Memory{} })
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var below blobtest.Memory
	var next blobtest.Fault
	s := blobtest.NewFaulty(&below, func(blobtest.Call) blobtest.Fault { return next })
	if !blob.IsAtomic(s) {
		t.Error("the ability of the store below is not seen")
	}
	put := func(key string) error { return s.Put(t.Context(), key, strings.NewReader("0123456789"), 10) }
	next = blobtest.Fault{Fail: true}
	if err := put("a"); !blob.Retryable(err) || below.Damage("a", func(b []byte) []byte { return b }) {
		t.Errorf("failed put: %v", err)
	}
	next = blobtest.Fault{Lost: true}
	if err := put("a"); !blob.Retryable(err) || !below.Damage("a", func(b []byte) []byte { return b }) {
		t.Errorf("lost put: %v", err)
	}
	next = blobtest.Fault{Fatal: true}
	if err := put("b"); !errors.Is(err, blobtest.ErrInjected) || blob.Retryable(err) {
		t.Errorf("fatal put: %v", err)
	}
	for _, c := range []struct {
		fault blobtest.Fault
		want  string
		retry bool
	}{{blobtest.Fault{Cut: 4}, "0123", true}, {blobtest.Fault{Cut: 4, Short: true}, "0123", true}, {blobtest.Fault{Short: true}, "0123456789", false}} {
		next = c.fault
		r, err := s.Get(t.Context(), "a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if string(got) != c.want || blob.Retryable(err) != c.retry {
			t.Errorf("%+v: read %q, %v", c.fault, got, err)
		}
	}
	next = blobtest.Fault{Skew: -time.Hour}
	if b, err := s.Stat(t.Context(), "a"); err != nil || time.Since(b.Modified) < time.Hour {
		t.Errorf("skewed stat: %v, %v", b.Modified, err)
	}
}
