//go:build integration

package view_test

import (
	"bufio"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// TestViewer: the viewer's page in Debian's Chromium shows the desktop by every way,
// takes control, types what people type, and comes back. The script has the steps;
// each is a line of its output.
func TestViewer(t *testing.T) {
	runViewer(t, "ways")
}

// TestNoWay: where WebRTC finds no way the page goes over to the WebSocket by itself.
func TestNoWay(t *testing.T) {
	runViewer(t, "noway")
}

// runViewer runs testdata/viewer.js in a mode.
func runViewer(t *testing.T, mode string) {
	t.Helper()
	modules, err := filepath.Abs("../../../test/browser/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	media, err := rtc.Open(t.Context(), rtc.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := media.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &stagehand{media: media}
	h.door = newDoorOf(t, image.Pt(1280, 800), func(next http.Handler) http.Handler {
		h.next.Store(&next)
		mux := http.NewServeMux()
		mux.HandleFunc("/test/{what}", h.serve)
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { (*h.next.Load()).ServeHTTP(w, r) })
		return mux
	}, func(c *server.Config) { c.Media = media })
	if _, err := h.client.Control().SetPolicy(t.Context(), api.ControlPolicy{Clipboard: "both", Drop: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	h.proxy = newProxy(t, strings.TrimPrefix(h.url, "http://"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "viewer.js"), mode, h.url, h.proxy.url, h.desktop.ID)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for lines := bufio.NewScanner(out); lines.Scan(); steps++ {
		name, fault, failed := strings.Cut(lines.Text(), "\tfailed: ")
		t.Run(name, func(t *testing.T) {
			if failed {
				t.Error(fault)
			}
		})
	}
	if err := cmd.Wait(); err != nil || steps == 0 {
		t.Errorf("%d steps (scripts/deps.sh test installs what the test needs): %v", steps, err)
	}
}

// stagehand is what a script asks for besides the server's own routes.
type stagehand struct {
	*door

	proxy *proxy
	media *rtc.Endpoint
	next  atomic.Pointer[http.Handler]
}

// restart is a restart of the host and its server, behind a network that is cut
// meanwhile.
func (h *stagehand) restart() error {
	h.proxy.cut(true)
	h.Stop()
	h.Start()
	s, err := server.New(server.Config{Host: h.Host, Address: "127.0.0.1:0", Media: h.media, Logger: slog.New(slog.NewTextHandler(h.log, nil))})
	if err != nil {
		return err
	}
	var next http.Handler = s
	h.next.Store(&next)
	h.proxy.cut(false)
	return nil
}

func (h *stagehand) serve(w http.ResponseWriter, r *http.Request) {
	ctx, q := r.Context(), r.URL.Query()
	n := func(name string) int { v, _ := strconv.Atoi(q.Get(name)); return v } // 0 when it is not said
	var err error
	var out any
	switch r.PathValue("what") {
	case "fill":
		h.screen().Fill(image.Rect(n("x"), n("y"), n("x")+n("w"), n("y")+n("h")), color.RGBA{byte(n("r")), byte(n("g")), byte(n("b")), 255})
	case "draw":
		h.screen().Draw(picture(image.Pt(1280, 800)))
	case "photo":
		var f *os.File
		if f, err = os.Open("../../../docs/desktop.png"); err == nil {
			defer f.Close()
			var img image.Image
			if img, err = png.Decode(f); err == nil {
				h.screen().Draw(img)
			}
		}
	case "events":
		out = map[string]any{"screen": h.screen().Events(), "guest": h.Machine(h.desktop.ID).Guest.Desktop.Events()}
	case "ticket":
		out, err = h.client.Tickets().Create(ctx, api.CreateTicket{Kind: api.TicketView, Role: q.Get("role"), TTLS: n("ttl")})
	case "revoke":
		err = h.client.Tickets().Delete(ctx, q.Get("id"))
	case "input":
		var b api.InputBatch
		if err = json.NewDecoder(r.Body).Decode(&b); err == nil {
			out, err = h.client.Input().Do(ctx, b)
		}
	case "dropped":
		var d api.Desktop
		if d, err = h.client.Get(ctx); err == nil {
			out, err = h.client.Files().List(ctx, d.ControlPolicy.Drop)
		}
	case "clip":
		out, err = h.client.Clipboard().Text(ctx)
	case "control":
		out, err = h.client.Control().Status(ctx)
	case "copy":
		err = h.client.Clipboard().SetText(ctx, q.Get("text"))
	case "restart":
		err = h.restart()
	case "cut":
		h.proxy.cut(true)
	case "mend":
		h.proxy.cut(false)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(out) // a script that is gone reads nothing
}

// proxy is a network that can be cut.
type proxy struct {
	url, to string

	mu    sync.Mutex
	off   bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String(), to: to, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.join(t.Context(), c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(true)
		all.Wait()
	})
	return p
}

// join copies both ways until one of them ends, or the network is cut.
func (p *proxy) join(ctx context.Context, c net.Conn) {
	defer c.Close()
	s, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer s.Close()
	p.mu.Lock()
	if p.off {
		p.mu.Unlock()
		return
	}
	p.conns[c], p.conns[s] = true, true
	p.mu.Unlock()
	var wait sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	wait.Go(func() { pass(s, c) })
	wait.Go(func() { pass(c, s) })
	wait.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	delete(p.conns, s)
}

func (p *proxy) cut(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
	for c := range p.conns {
		if off {
			_ = c.Close()
		}
	}
}
