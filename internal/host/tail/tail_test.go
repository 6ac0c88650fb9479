package tail_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/tail"
)

func TestCopy(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 10_000)
	tests := []struct {
		name, text string
		lines      int
		want       string
	}{
		{"last two", "a\nb\nc\n", 2, "b\nc\n"},
		{"no last newline", "a\nb\nc", 2, "b\nc"},
		{"more than there are", "a\nb\n", 9, "a\nb\n"},
		{"all", "a\nb\n", -1, "a\nb\n"},
		{"none", "a\nb\n", 0, ""},
		{"empty", "", 5, ""},
		{"over many blocks", long, 9_000, long[1000*16:]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := tail.Copy(t.Context(), &b, tail.Follow{Path: path, Lines: tt.lines}); err != nil || b.String() != tt.want {
				t.Errorf("%d bytes, want %d, %v", b.Len(), len(tt.want), err)
			}
		})
	}
	err := tail.Copy(t.Context(), &strings.Builder{}, tail.Follow{Path: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file answers %v", err)
	}
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	synctest.Test(t, func(t *testing.T) {
		add := func(text string) {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if _, err := f.WriteString(text); err != nil {
				t.Error(err)
			}
		}
		add("old\n")
		done := make(chan struct{})
		time.AfterFunc(time.Minute, func() { add("new\n") })
		time.AfterFunc(2*time.Minute, func() {
			add("last\n")
			close(done)
		})
		var b strings.Builder
		flushed := 0
		err := tail.Copy(t.Context(), &b, tail.Follow{
			Path: path, Lines: 1, Go: true, Done: done, Flush: func() error { flushed++; return nil },
		})
		if err != nil || b.String() != "old\nnew\nlast\n" || flushed == 0 {
			t.Errorf("%q, %v", b.String(), err)
		}
	})
}

func TestBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("first line\nsecond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail.Bytes(path, 10); string(got) != "second\n" {
		t.Errorf("%q", got)
	}
	if got := tail.Bytes(path, 1000); string(got) != "first line\nsecond\n" {
		t.Errorf("%q", got)
	}
	if got := tail.Bytes(path+"x", 10); got != nil {
		t.Errorf("%q", got)
	}
}
