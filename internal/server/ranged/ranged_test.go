package ranged_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/deskfork/deskfork/internal/server/ranged"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=9-", "bytes=5-2", "bytes=-0", "bytes=+1-2", "bytes=0-9223372036854775807", "bytes=,", "x"} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", header)
		part, partial, err := ranged.Parse(r, `"t"`, size)
		if err == nil && (part.From < 0 || part.Len < 0 || part.From+part.Len > size || (partial && part.Len == 0)) {
			t.Errorf("%q of %d is %+v, %t", header, size, part, partial)
		}
	})
}

func TestMatches(t *testing.T) {
	for header, want := range map[string]bool{`"a"`: true, `"b", W/"a"`: true, "*": true, `"b"`: false, "": false} {
		if got := ranged.Matches(header, `"a"`); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}
