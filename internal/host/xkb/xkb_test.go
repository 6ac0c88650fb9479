package xkb_test

import (
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/xkb"
)

func TestCheck(t *testing.T) {
	for keyboard, want := range map[string]string{
		"":               "",
		"us":             "",
		"de:nodeadkeys":  "",
		"ch:fr":          "",
		"jp:kana":        "",
		"custom:own":     "",
		"xx":             `no layout "xx"; there are af al am apl ara at `,
		"de:nodeadkey":   `layout de has no variant "nodeadkey"; it has T3 adnw `,
		"german":         "there are",
		"u":              "there are",
		"de:nodeadkeys:": "has no variant",
		"de\n":           "there are",
	} {
		err := xkb.Check(keyboard)
		switch {
		case want == "" && err != nil, want != "" && err == nil:
			t.Errorf("%q: %v", keyboard, err)
		case want != "" && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v, want %q in it", keyboard, err, want)
		}
	}
}
