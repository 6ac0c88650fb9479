package input_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/internal/host/sessions/input/rule"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

const hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// TestUploadedInput is its project's alone, is held for a run, and is not kept when it
// is not what was said.
func TestUploadedInput(t *testing.T) {
	t.Parallel()
	objects := &blobtest.Memory{}
	s := input.Store{Space: claim.Space{Objects: objects, Root: input.Root}, Dir: t.TempDir()}
	in, err := s.Put(t.Context(), "p", hello, strings.NewReader("hello"))
	if err != nil || in.Hash != hello || in.Size != 5 || time.Until(in.Expires) < 23*time.Hour {
		t.Fatalf("%+v, %v", in, err)
	}
	if got, err := s.Take(t.Context(), "p", in.ID, "r1"); err != nil || got.Hash != hello || got.Size != 5 {
		t.Errorf("taken: %+v, %v", got, err)
	}
	count := func(prefix string) int {
		all, err := objects.List(t.Context(), input.Root+prefix, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := count("holds/"); n != 1 {
		t.Errorf("%d holds", n)
	}
	none := &api.Error{Code: api.CodeNotFound}
	for name, who := range map[string][2]string{"another project": {"q", in.ID}, "no such": {"p", "i23456723456"}} {
		if got, err := s.Take(t.Context(), who[0], who[1], "r2"); !errors.Is(err, none) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if err := s.Release(t.Context(), in.ID, "r1"); err != nil || count("holds/") != 0 {
		t.Errorf("%d holds, %v", count("holds/"), err)
	}
	before := count("")
	for name, body := range map[string]io.Reader{
		"another": strings.NewReader("hullo"), "cut": io.MultiReader(strings.NewReader("hel"), iotest.ErrReader(errCable)),
	} {
		if got, err := s.Put(t.Context(), "p", hello, body); err == nil || count("") != before {
			t.Errorf("%s: %+v, %v, %d objects", name, got, err, count(""))
		}
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("left on its way: %v, %v", left, err)
	}
	if err := objects.Put(t.Context(), input.Root+"tombs/"+in.ID+"/sweep", strings.NewReader(""), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(t.Context(), "p", in.ID, "r3"); !errors.Is(err, none) || count("holds/") != 0 {
		t.Errorf("dropped: %v, %d holds", err, count("holds/"))
	}
	if err := objects.Delete(t.Context(), input.Root+"blobs/"+in.ID+"/content"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenFile(t.Context(), session.Resource{ID: in.ID}); !errors.Is(err, workspace.ErrMissing) {
		t.Errorf("missing: %v", err)
	}
}

// TestWeb fetches from a server by https, and says why it does not.
func TestWeb(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			fmt.Fprint(w, "hello")
		case "/moved":
			http.Redirect(w, r, "/hello", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/down":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "hello")
		case "/stalls":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	transport := func() *http.Transport { return server.Client().Transport.(*http.Transport).Clone() }
	web := input.NewWeb(input.WebConfig{Public: func(netip.Addr) bool { return true }, Stall: 100 * time.Millisecond, Transport: transport()})
	get := func(web *input.Web, url string) (string, error) {
		r, err := web.OpenFile(t.Context(), session.Resource{URL: url})
		if err != nil {
			return "", err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		return string(b), err
	}
	for path, want := range map[string]api.Code{
		"/hello": "", "/moved": "", "/round": api.CodePrecondition, "/down": api.CodePrecondition, "/cut": api.CodePrecondition,
		"/stalls": api.CodeDeadline, "/busy": api.CodePrecondition, "/none": api.CodePrecondition,
	} {
		got, err := get(web, server.URL+path)
		if want == "" && (err != nil || got != "hello") || want != "" && !errors.Is(err, &api.Error{Code: want}) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	guarded := input.NewWeb(input.WebConfig{Transport: transport()})
	if got, err := get(guarded, server.URL+"/hello"); !errors.Is(err, &api.Error{Code: api.CodeForbidden}) {
		t.Errorf("of the host itself: %q, %v", got, err)
	}
	if got, err := get(web, plain.URL); !errors.Is(err, &api.Error{Code: api.CodeInvalid}) {
		t.Errorf("in plain: %q, %v", got, err)
	}
}

// TestPublic tells addresses of the internet from others.
func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"93.184.215.14": true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "192.0.0.8": false,
		"::1": false, "::": false, "fe80::1": false, "fd00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001:0:1::": false,
	} {
		if got := input.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, ok := range map[string]bool{
		"https://h/x": true, "https://h": true, "http://h/x": false, "file:///etc/passwd": false, "https:///x": false,
		"https://u:p@h/x": false, "ftp://h/x": false, "": false, "https://h/%zz": false,
	} {
		if err := rule.URL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNames: what a file may be called.
func TestNames(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"a": true, "a/b": true, ".hidden": true, "ü and space": true, "...": true, "a..b/c": true,
		"": false, ".": false, "..": false, "../a": false, "a/..": false, "a/../b": false, "/a": false, "a/": false, "a//b": false, "./a": false,
		"a\x00b": false, "a\nb": false, `a\b`: false, "\xff": false, strings.Repeat("x", 256): false, strings.Repeat("x/", 600) + "x": false,
		strings.Repeat("x", 255): true,
	} {
		if err := rule.Names([]string{text})[0]; (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	for _, pair := range [][2]string{{"a", "a"}, {"a", "a/b"}, {"a/b", "a"}, {"a/b", "a/b/c/d"}} {
		if errs := rule.Names(pair[:]); errs[0] != nil || errs[1] == nil {
			t.Errorf("%v: %v", pair, errs)
		}
	}
	if errs := rule.Names([]string{"a/b", "a/c", "ab"}); errs[0] != nil || errs[1] != nil || errs[2] != nil {
		t.Errorf("side by side: %v", errs)
	}
}
