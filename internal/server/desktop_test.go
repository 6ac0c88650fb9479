package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func TestFiles(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	path := filepath.Join(t.TempDir(), "a", "b.txt")
	at := "/v1/desktops/one/files?path=" + url.QueryEscape(path)
	if resp := d.do(t, "PUT", at, "0123456789"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without parents: %d", resp.StatusCode)
	}
	resp := d.do(t, "PUT", at+"&parents=true&mode=0640", "0123456789")
	var info api.FileInfo
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil || resp.StatusCode != http.StatusCreated || info.Size != 10 || info.Mode != 0o640 {
		t.Fatalf("%d: %+v, %v", resp.StatusCode, info, err)
	}
	if resp := d.do(t, "PUT", at, "x", "If-None-Match", "*"); resp.StatusCode != http.StatusConflict {
		t.Errorf("exclusive write: %d", resp.StatusCode)
	}
	tag := d.do(t, "GET", at, "").Header.Get("ETag")
	tests := []struct {
		name, method string
		header       []string
		status       int
		body         string
		length       string
	}{
		{"all", "GET", nil, 200, "0123456789", "10"},
		{"head", "HEAD", nil, 200, "", "10"},
		{"range", "GET", []string{"Range", "bytes=2-4"}, 206, "234", "3"},
		{"open range", "GET", []string{"Range", "bytes=7-"}, 206, "789", "3"},
		{"last bytes", "GET", []string{"Range", "bytes=-2"}, 206, "89", "2"},
		{"range past the end", "GET", []string{"Range", "bytes=8-99"}, 206, "89", "2"},
		{"range outside", "GET", []string{"Range", "bytes=10-"}, 416, "", ""},
		{"several ranges", "GET", []string{"Range", "bytes=0-1,3-4"}, 200, "0123456789", "10"},
		{"no range", "GET", []string{"Range", "lines=1-2"}, 200, "0123456789", "10"},
		{"same tag", "GET", []string{"If-None-Match", tag}, 304, "", ""},
		{"other tag", "GET", []string{"If-None-Match", `"x"`}, 200, "0123456789", "10"},
		{"range of the same", "GET", []string{"Range", "bytes=0-0", "If-Range", tag}, 206, "0", "1"},
		{"range of another", "GET", []string{"Range", "bytes=0-0", "If-Range", `"x"`}, 200, "0123456789", "10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := d.do(t, tt.method, at, "", tt.header...)
			if resp.StatusCode != tt.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if tt.status >= 300 {
				return
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != tt.body || resp.Header.Get("Content-Length") != tt.length {
				t.Errorf("body %q of length %s, %v", body, resp.Header.Get("Content-Length"), err)
			}
		})
	}
	desk := d.Client.Desktop("one")
	files := desk.Files()
	ctx := t.Context()
	dir := filepath.Dir(path)
	if err := files.Rename(ctx, path, path+".2"); err != nil {
		t.Error(err)
	}
	if err := files.Chmod(ctx, path+".2", 0o600); err != nil {
		t.Error(err)
	}
	list, err := files.List(ctx, dir)
	if err != nil || len(list) != 1 || list[0].Name != "b.txt.2" || list[0].Mode != 0o600 {
		t.Errorf("list is %+v, %v", list, err)
	}
	tar, err := files.Archive(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to")
	if err := files.Extract(ctx, to, tar); err != nil {
		t.Fatal(err)
	}
	tar.Close()
	if text, err := files.Read(ctx, filepath.Join(to, "b.txt.2")); err != nil || string(text) != "0123456789" {
		t.Errorf("extracted %q, %v", text, err)
	}
	if err := files.Remove(ctx, dir, false); err == nil {
		t.Error("a directory with entries was removed")
	}
	if err := files.Remove(ctx, dir, true); err != nil {
		t.Error(err)
	}
	// A file that the kernel makes up says 0 for its size.
	if text, err := files.Read(ctx, "/proc/version"); err != nil || len(text) == 0 {
		t.Errorf("/proc/version is %q, %v", text, err)
	}
}

// TestArchiveSaysWhatItCouldNotRead: an archive that breaks off half way tells why
// to who asks for it, and is cut off for everybody else.
func TestArchiveSaysWhatItCouldNotRead(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // nobody has to get there
		t.Fatal(err)
	}
	for i := range 8 {
		if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)), make([]byte, 64<<10), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Readdirnames(-1) // the order in which they are read
	if err := errors.Join(err, f.Close(), os.Chmod(filepath.Join(dir, names[7]), 0)); err != nil {
		t.Fatal(err)
	}
	at := "/v1/desktops/one/archive?path=" + url.QueryEscape(dir)
	if os.Geteuid() == 0 { // who may read all
		at += "&user=nobody"
	}
	for _, ask := range []bool{true, false} {
		header := []string{"TE", "trailers"}
		if !ask {
			header = nil
		}
		resp := d.do(t, "GET", at, "", header...)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		said := resp.Trailer.Get(api.HeaderProblem)
		switch {
		case !ask && (err == nil || said != ""):
			t.Errorf("%d bytes came, then %v, and %q", n, err, said)
		case ask && (err != nil || !strings.Contains(said, `"code":"permission"`) || !strings.Contains(said, names[7])):
			t.Errorf("%d bytes came, then %v, and %q", n, err, said)
		}
	}
}

func TestWatch(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	dir := t.TempDir()
	resp := d.do(t, "GET", "/v1/desktops/one/watch?path="+url.QueryEscape(dir), "")
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Fatalf("content type %q", ct)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	// The headers come before the watch is set up: write until it is seen.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	want := "\"path\":\"" + filepath.Join(dir, "new") + "\""
	for n := 0; ; n++ {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the watch ended")
			}
			if strings.Contains(line, want) {
				resp.Body.Close()
				for range lines {
				}
				return
			}
		case <-tick.C:
			if n > 3000 {
				t.Fatal("no change was seen")
			}
			if err := os.WriteFile(filepath.Join(dir, "new"), []byte{byte(n)}, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t, func(c *server.Config) { c.Limits.Heartbeat = 20 * time.Millisecond })
	one := d.Create(api.CreateDesktop{Name: "one", Cold: true})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var types []string
	var last uint64
	for e, err := range d.Client.Events(ctx, client.EventOptions{Desktop: "one", After: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Desktop != one.ID && e.Type != "events.lost" {
			t.Errorf("event of another desktop: %+v", e)
		}
		types = append(types, e.Type)
		last = e.Seq
		if e.Type == "desktop.ready" {
			break
		}
	}
	want := []string{
		"events.lost", "desktop.created", "desktop.stage", "desktop.stage", "desktop.stage", "desktop.stage", "desktop.stage", "desktop.ready",
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	resp := d.do(t, "GET", "/v1/events", "", "Last-Event-ID", fmt.Sprint(last))
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), ":") {
		t.Errorf("no sign of life: %q, %v", lines.Text(), lines.Err())
	}
	resp.Body.Close()
}

func TestControl(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	desk := d.Client.Desktop("one")
	ctx := t.Context()
	if err := desk.Click(ctx, 3, 4); err != nil {
		t.Fatal(err)
	}
	resp := d.do(t, "POST", "/v1/desktops/one/input", `{"actions":[{"kind":"click"},{"kind":"release"},{"kind":"move"}]}`)
	var reply api.InputReply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	if len(reply.Results) != 1 || reply.Error == nil || reply.Error.Code != api.CodeInvalid {
		t.Errorf("reply is %+v", reply)
	}
	if n := len(d.Input.Batches()); n != 2 {
		t.Errorf("%d batches were played", n)
	}
	windows, err := desk.Windows().List(ctx)
	if err != nil || len(windows) != 3 || windows[2].Class != "Xterm" {
		t.Errorf("windows are %+v, %v", windows, err)
	}
	if err := desk.Clipboard().SetText(ctx, "grün 日本"); err != nil {
		t.Fatal(err)
	}
	if text, err := desk.Clipboard().Text(ctx); err != nil || text != "grün 日本" {
		t.Errorf("clipboard is %q, %v", text, err)
	}
	if _, err := desk.Launch(ctx, api.Launch{Argv: []string{"xterm"}}); err != nil {
		t.Error(err)
	}
	if _, err := desk.Screen().Pointer(ctx); err != nil {
		t.Error(err)
	}
	if err := desk.Screen().Resize(ctx, api.Display{Width: 1024, Height: 768}); err != nil {
		t.Error(err)
	}
	if err := desk.Screen().SetKeyboard(ctx, "de:nodeadkeys"); err != nil {
		t.Error(err)
	}
	v, err := desk.Get(ctx)
	if err != nil || v.Display.Width != 1024 || v.Keyboard != "de:nodeadkeys" {
		t.Errorf("desktop is %+v, %v", v, err)
	}
	if _, err := desk.Screen().Wait(ctx, client.ScreenWait{For: "still", Still: time.Millisecond}); err != nil {
		t.Error(err)
	}
	_, err = desk.Screen().Wait(ctx, client.ScreenWait{For: "change", Timeout: 50 * time.Millisecond})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeDeadline {
		t.Errorf("a wait for nothing answers %v", err)
	}
}

func TestTokensAndProjects(t *testing.T) {
	d := newDoor(t)
	ctx := t.Context()
	made, err := d.Client.Tokens().Create(ctx, api.CreateToken{Name: "ci", Project: "ci"})
	if err != nil || made.Secret == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	other, err := client.New(d.HTTP.URL, client.WithToken(made.Secret))
	if err != nil {
		t.Fatal(err)
	}
	d.Create(api.CreateDesktop{Name: "one"})
	if list, err := other.Desktops().List(ctx, client.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("another project sees %+v, %v", list, err)
	}
	if _, err := other.Tokens().List(ctx); err == nil {
		t.Error("tokens are listed without the scope")
	}
	list, err := d.Client.Tokens().List(ctx)
	if err != nil || len(list) < 2 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, tok := range list {
		if tok.Secret != "" {
			t.Error("a list says a secret")
		}
	}
	if err := d.Client.Tokens().Delete(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Desktops().List(ctx, client.Filter{}); err == nil {
		t.Error("a revoked token works")
	}
}

func TestInfoDoctorMetrics(t *testing.T) {
	d := newDoor(t, func(c *server.Config) { c.Doctor = func() doctor.Config { return doctor.Config{DataDir: "/"} } })
	d.Create(api.CreateDesktop{Name: "one"})
	var info api.Info
	if err := json.NewDecoder(d.do(t, "GET", "/v1/info", "").Body).Decode(&info); err != nil || info.Provider != "memory" || info.Desktops != 1 {
		t.Errorf("info is %+v, %v", info, err)
	}
	var report api.Doctor
	if err := json.NewDecoder(d.do(t, "GET", "/v1/doctor", "").Body).Decode(&report); err != nil || len(report.Checks) == 0 {
		t.Errorf("report is %+v, %v", report, err)
	}
	for _, want := range []string{ // a request is counted when it is over, a moment after its answer
		`deskfork_http_requests_total{route="GET /v1/info",status="200"} 1`,
		`deskfork_desktops{state="ready"} 1`,
		`deskfork_boot_stage_seconds_count{stage="drawn"} 1`,
	} {
		t.Run(want, func(t *testing.T) { waitFor(t, func() bool { return strings.Contains(d.metrics(t), want) }) })
	}
	if resp := d.do(t, "GET", "/metrics", "", "Authorization", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("metrics without a token answer %d", resp.StatusCode)
	}
	if resp := d.do(t, "GET", "/healthz", "", "Authorization", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("health answers %d", resp.StatusCode)
	}
}
