package input_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guesthelper/input"
)

func split(parts [][]rune) []string {
	var out []string
	for _, p := range parts {
		out = append(out, string(p))
	}
	return out
}

func TestLines(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a": {"a"}, "a\n": {"a", "\n"}, "\n\nb": {"\n", "\n", "b"}, "a\nb\nc": {"a", "\n", "b", "\n", "c"},
	} {
		if diff := cmp.Diff(want, split(input.Lines([]rune(text)))); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
