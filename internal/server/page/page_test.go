package page_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/page"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/web"
)

func table() *route.Table {
	return route.New(route.Config{Enter: func(ctx context.Context, _ string) (token.Principal, context.Context, func(), error) {
		return token.Principal{}, ctx, func() {}, errors.New("nobody enters")
	}})
}

func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestPages: the pages of the program are served without a ticket, under a policy
// that lets nothing of others in, and files whose names tell what is in them are kept.
func TestPages(t *testing.T) {
	files, err := web.Files()
	if err != nil {
		t.Fatal(err)
	}
	h := table()
	if err := page.Register(h, files); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/view/d123"} {
		w := get(t, h, path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-cache" {
			t.Fatalf("%s: %d, %v", path, w.Code, w.Header())
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %s: %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy is loose: %s", path, policy)
		}
		for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if again := get(t, h, path, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", path, again.Code)
		}
		_, rest, ok := strings.Cut(w.Body.String(), `src="/assets/`)
		if !ok {
			t.Fatalf("%s names no script: %s", path, w.Body)
		}
		name, _, _ := strings.Cut(rest, `"`)
		script := get(t, h, "/assets/"+name)
		if script.Code != http.StatusOK || script.Header().Get("Content-Type") != "text/javascript; charset=utf-8" ||
			!strings.Contains(script.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", name, script.Code, script.Header())
		}
	}
	for _, path := range []string{"/assets/gone.js", "/assets/..%2findex.html"} {
		if w := get(t, h, path); w.Code != http.StatusNotFound || strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
	if w := get(t, h, "/view/"); w.Code != http.StatusNotFound {
		t.Errorf("no desktop: %d", w.Code)
	}
}

// TestIncomplete: a program without its pages does not start.
func TestIncomplete(t *testing.T) {
	for _, files := range []fstest.MapFS{{}, {"index.html": &fstest.MapFile{}, "view.html": &fstest.MapFile{}}} {
		if page.Register(table(), files) == nil {
			t.Errorf("%v is served", files)
		}
	}
}
