package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/blob"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"a": true, "a/b-c_d.e/0": true, strings.Repeat("a", 128): true,
		"": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false, "a/../b": false, "a/.b": false,
		"A": false, "a b": false, "a\x00": false, "a\\b": false, "ü": false, "a%2e": false,
		strings.Repeat("a", 129): false, strings.Repeat("aa/", 171) + "a": false,
	} {
		if err := blob.CheckKey(key); (err == nil) != ok || err != nil && !errors.Is(err, blob.ErrKey) {
			t.Errorf("CheckKey(%q) = %v, want allowed: %v", key, err, ok)
		}
	}
	for prefix, ok := range map[string]bool{"": true, "a/": true, "a/b": true, "/": false, "../": false, "a//": false} {
		if err := blob.CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("CheckPrefix(%q) = %v, want allowed: %v", prefix, err, ok)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "a/./b", "a//b", "\x00", "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if blob.CheckKey(key) != nil {
			return
		}
		if !fs.ValidPath(key) || key == "." || path.Clean("/root/"+key) != "/root/"+key || strings.ToLower(key) != key {
			t.Errorf("key %q is allowed and leaves its place", key)
		}
	})
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	slow := &blob.Error{Op: "get", Key: "a", Retry: true, Err: errors.New("slow down")}
	gone := &blob.Error{Op: "get", Key: "a", Retry: true, Err: context.Canceled}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("x"), false},
		{blob.ErrNotFound, false},
		{slow, true},
		{fmt.Errorf("write: %w", slow), true},
		{gone, false},
		{&blob.Error{Op: "put", Err: blob.ErrFull}, false},
	} {
		if got := blob.Retryable(c.err); got != c.want {
			t.Errorf("Retryable(%v) = %v", c.err, got)
		}
	}
	if !errors.Is(blob.ErrNotFound, fs.ErrNotExist) || !errors.Is(blob.ErrExists, fs.ErrExist) {
		t.Error("sentinels are not those of io/fs")
	}
}
