//go:build cgo

package recordings_test

import (
	"bytes"
	"image"
	"image/color"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/internal/server/servertest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// house is a server over a host whose machines have a synthetic screen.
type house struct {
	*hosttest.Fixture

	t       *testing.T
	url     string
	desktop api.Desktop
	client  *client.Desktop
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t}
	h.Fixture = hosttest.New(t, func(c *host.Config) {
		c.Open = func(cfg reach.Config) (*live.Desktop, error) { return adapter.Opener(cfg) }
	})
	h.Provider.OnBorn(func(m *hosttest.Machine) {
		m.Screen().Draw(videotest.Screen(1280, 800, 1))
		m.Guest.Desktop.Override(hosttest.DrawnWindows)
	})
	url, token := servertest.Serve(t, server.Config{Host: h.Host}, nil)
	h.url = url
	h.desktop = h.Create(api.CreateDesktop{Name: "one"})
	c, err := client.New(h.url, client.WithToken(token), client.WithRetries(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	h.client = c.Desktop(h.desktop.ID)
	return h
}

// ticket is the secret of a link with a role.
func (h *house) ticket(role string) string {
	h.t.Helper()
	got, err := h.client.Tickets().Create(h.t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role})
	if err != nil {
		h.t.Fatal(err)
	}
	return got.Ticket
}

// send makes a request under a ticket.
func (h *house) send(secret, method, rest string, header ...string) (*http.Response, []byte) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/v1/desktops/"+h.desktop.ID+"/recordings"+rest, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, body
}

// fill paints the whole screen.
func (h *house) fill(c color.RGBA) {
	h.Machine(h.desktop.ID).Screen().Fill(image.Rect(0, 0, 1280, 800), c)
}

// until waits for something, which takes as long as the machine is busy.
func (h *house) until(what string, fn func(api.Recording) bool) api.Recording {
	h.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		list, err := h.client.Recordings().List(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if len(list) > 0 && fn(list[0]) {
			return list[0]
		}
	}
	h.t.Fatalf("never: %s", what)
	return api.Recording{}
}

// TestRoles: who may see, make and delete recordings, and in what parts they are read.
func TestRoles(t *testing.T) {
	h := newHouse(t)
	look, act, own := h.ticket("view"), h.ticket("control"), h.ticket("admin")
	expect := func(secret, method, rest string, want int) {
		t.Helper()
		if resp, body := h.send(secret, method, rest); resp.StatusCode != want {
			t.Errorf("%s %s: %d, want %d: %.300q", method, rest, resp.StatusCode, want, body)
		}
	}
	expect(look, http.MethodPost, "", http.StatusForbidden)
	expect(act, http.MethodPost, "/stop", http.StatusConflict)
	expect(act, http.MethodPost, "", http.StatusCreated)
	expect(act, http.MethodPost, "", http.StatusConflict)
	if _, err := h.client.Input().Do(t.Context(), api.InputBatch{Actions: []api.Action{{Kind: "text", Text: "secret"}}}); err != nil {
		t.Logf("input: %v", err) // it is told before it is played
	}
	r := h.until("a chapter, and something written", func(r api.Recording) bool {
		return len(r.Chapters) > 0 && strings.Contains(r.Chapters[len(r.Chapters)-1].Title, "text") && r.Bytes > 0
	})
	if r.State != api.RecordingRuns || r.Width != 1280 {
		t.Errorf("%+v", r)
	}
	expect(look, http.MethodPost, "/stop", http.StatusForbidden)
	expect(own, http.MethodDelete, "/"+r.ID, http.StatusConflict)
	expect(act, http.MethodPost, "/stop", http.StatusOK)
	expect(look, http.MethodGet, "", http.StatusOK)
	expect(look, http.MethodGet, "/nothing", http.StatusNotFound)

	var all bytes.Buffer
	if n, err := h.client.Recordings().Read(t.Context(), r.ID, &all); err != nil || n != int64(all.Len()) || !bytes.Contains(all.Bytes()[:64], []byte("webm")) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if bytes.Contains(all.Bytes(), []byte("secret")) {
		t.Error("a chapter tells what was typed")
	}
	resp, body := h.send(look, http.MethodGet, "/"+r.ID, "Range", "bytes=4-99")
	if resp.StatusCode != http.StatusPartialContent || !bytes.Equal(body, all.Bytes()[4:100]) || resp.Header.Get("Content-Type") != api.WebMMIME {
		t.Errorf("%d, %d bytes, %v", resp.StatusCode, len(body), resp.Header)
	}
	if resp, _ := h.send(look, http.MethodGet, "/"+r.ID, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("the same again: %d", resp.StatusCode)
	}
	if resp, _ := h.send(look, http.MethodGet, "/"+r.ID, "Range", "bytes=99999999-"); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("beyond the end: %d", resp.StatusCode)
	}
	expect(act, http.MethodDelete, "/"+r.ID, http.StatusForbidden)
	expect(own, http.MethodDelete, "/"+r.ID, http.StatusNoContent)
	expect(look, http.MethodGet, "/"+r.ID, http.StatusNotFound)

	log, err := h.client.Control().Audit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range slices.Backward(log) {
		if what, ok := strings.CutPrefix(e.What, "recording."); ok {
			said = append(said, what)
			if !strings.HasPrefix(e.By, "ticket:") {
				t.Errorf("%+v", e)
			}
		}
	}
	if got := strings.Join(said, " "); got != "started ended removed" {
		t.Errorf("audit log: %s", got)
	}
}

// TestHostStops: a recording ends with its host, and the next one has it.
func TestHostStops(t *testing.T) {
	h := newHouse(t)
	first, err := h.client.Recordings().Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Stop()
	h.Start()
	list, err := h.Host.Recordings.List(t.Context(), hosttest.Project, h.desktop.ID)
	if err != nil || len(list) != 1 || list[0].ID != first.ID || list[0].Reason != "host_stopped" {
		t.Fatalf("%+v, %v", list, err)
	}
}
