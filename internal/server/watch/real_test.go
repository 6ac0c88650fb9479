//go:build cgo

package watch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/internal/server/servertest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// house is a whole server over a host whose machines have a synthetic screen.
type house struct {
	*hosttest.Fixture

	t       *testing.T
	url     string
	token   string
	desktop api.Desktop
	client  *client.Desktop
}

// newHouse serves one desktop until the test ends. wrap puts another handler before
// the server's; nil: none.
func newHouse(t *testing.T, wrap func(http.Handler) http.Handler) *house {
	t.Helper()
	h := &house{t: t}
	h.Fixture = hosttest.New(t, func(c *host.Config) {
		c.Open = func(cfg reach.Config) (*live.Desktop, error) { return adapter.Opener(cfg) }
	})
	h.Provider.OnBorn(func(m *hosttest.Machine) {
		m.Screen().Draw(videotest.Screen(1280, 800, 1))
		m.Guest.Desktop.Override(hosttest.DrawnWindows)
	})
	media, err := rtc.Open(t.Context(), rtc.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := media.Close(); err != nil {
			t.Error(err)
		}
	})
	h.url, h.token = servertest.Serve(t, server.Config{Host: h.Host, Media: media}, wrap)
	h.desktop = h.Create(api.CreateDesktop{Name: "one"})
	c, err := client.New(h.url, client.WithToken(h.token), client.WithRetries(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	h.client = c.Desktop(h.desktop.ID)
	return h
}

func (h *house) screen() *vmtest.Screen { return h.Machine(h.desktop.ID).Screen() }

func (h *house) ticket(role string) api.Ticket {
	h.t.Helper()
	got, err := h.client.Tickets().Create(h.t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// path is one of the desktop's routes.
func (h *house) path(rest string) string { return "/v1/desktops/" + h.desktop.ID + rest }

// watch opens the WebSocket with headers, two strings each.
func (h *house) watch(header ...string) (*websocket.Conn, int) {
	h.t.Helper()
	set := http.Header{}
	for i := 0; i < len(header); i += 2 {
		set.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{Subprotocols: []string{api.SubprotocolStream}}
	ws, resp, err := dialer.DialContext(h.t.Context(), "ws"+strings.TrimPrefix(h.url, "http")+h.path("/stream?codec=vp8"), set)
	if err != nil {
		if resp == nil {
			h.t.Fatal(err)
		}
		resp.Body.Close()
		return nil, resp.StatusCode
	}
	h.t.Cleanup(func() { ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(3 * time.Minute)) // of the whole test
	return ws, resp.StatusCode
}

// hear waits for a message of a kind.
func hear(t *testing.T, ws *websocket.Conn, kind byte) []byte {
	t.Helper()
	for {
		typ, b, err := ws.ReadMessage()
		if err != nil {
			t.Fatalf("no message of kind %d: %v", kind, err)
		}
		if typ == websocket.BinaryMessage && b[0] == kind {
			return b
		}
	}
}

// say sends a message: its kind, its number, and the rest in 16 bits each.
func say(t *testing.T, ws *websocket.Conn, kind byte, seq uint32, rest ...uint16) {
	t.Helper()
	b := binary.BigEndian.AppendUint32([]byte{kind}, seq)
	for _, v := range rest {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	if kind == 3 {
		b = append(b, 1) // down
	}
	if err := ws.WriteMessage(websocket.BinaryMessage, b); err != nil {
		t.Fatal(err)
	}
}

// write sends a message that is a text.
func write(t *testing.T, ws *websocket.Conn, kind byte, seq uint32, text string) {
	t.Helper()
	if err := ws.WriteMessage(websocket.BinaryMessage, append(binary.BigEndian.AppendUint32([]byte{kind}, seq), text...)); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// played waits for an event of the machine's pointer or keyboard.
func (h *house) played(e vmtest.Event) {
	h.t.Helper()
	until(h.t, "the machine is told", func() bool { return slices.Contains(h.screen().Events(), e) })
}

// audited waits until the log has had these lines in this order.
func (h *house) audited(want ...string) {
	h.t.Helper()
	until(h.t, "the log has "+strings.Join(want, ", "), func() bool {
		list, err := h.client.Control().Audit(h.t.Context(), 0)
		if err != nil {
			h.t.Fatal(err)
		}
		left := want
		for _, e := range slices.Backward(list) {
			if len(left) > 0 && e.What+" "+e.Detail == left[0] || len(left) > 0 && e.What == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
}

// TestRoles: over the WebSocket a viewer sees and changes nothing, one of role
// control takes control by a press and keeps it from another, both are counted, and
// the end of a ticket is the end of what is watched under it.
func TestRoles(t *testing.T) {
	h := newHouse(t, nil)
	look, act, rival := h.ticket("view"), h.ticket("control"), h.ticket("control")
	viewer, status := h.watch("Authorization", "Bearer "+look.Ticket)
	if status != http.StatusSwitchingProtocols {
		t.Fatal(status)
	}
	hear(t, viewer, 1)
	say(t, viewer, 2, 1, 10, 20, 1)
	if b := hear(t, viewer, 18); string(b[5:14]) != "forbidden" {
		t.Errorf("a viewer's press is answered %q", b)
	}
	person, _ := h.watch("Authorization", "Bearer "+act.Ticket)
	say(t, person, 1, 1, 5, 5)
	say(t, person, 2, 2, 30, 40, 1)
	h.played(vmtest.Event{Kind: "pointer", X: 30, Y: 40, Buttons: 1})
	say(t, person, 2, 3, 30, 40, 0)
	say(t, person, 4, 4, 30, 40, 0, 60)
	say(t, person, 4, 5, 30, 40, 0, 70)
	h.played(vmtest.Event{Kind: "pointer", X: 30, Y: 40, Buttons: 16})
	say(t, person, 8, 6)
	write(t, person, 5, 7, "hi")
	until(t, "the guest is told the text", func() bool { // its helper knows the layout
		return slices.ContainsFunc(h.Machine(h.desktop.ID).Guest.Desktop.Events(), func(e guest.InputEvent) bool { return e.Text == "hi" })
	})
	write(t, person, 9, 8, "secret") // the policy keeps clipboards apart
	if b := hear(t, person, 18); string(b[1:14]) != "\x00\x00\x00\x08forbidden" {
		t.Errorf("a text for the clipboard is answered %q", b)
	}
	again, _ := h.watch("Authorization", "Bearer "+act.Ticket) // the same person, in another way: his control stays
	hear(t, again, 1)
	again.Close()
	h.audited("viewer.left")
	other, _ := h.watch("Authorization", "Bearer "+rival.Ticket)
	say(t, other, 3, 1, 0, 'a', 0, 30)
	if b := hear(t, other, 18); string(b[5:17]) != "control_held" {
		t.Errorf("a rival's key is answered %q", b)
	}
	for _, e := range h.screen().Events() {
		if e.X == 10 || e.X == 5 || e.Kind == "key" && e.Down {
			t.Errorf("the machine is told %+v", e)
		}
	}
	h.audited("viewer.joined websocket as view", "viewer.joined websocket as control", "control.taken")
	<-time.After(1100 * time.Millisecond) // to be counted
	if err := h.client.Tickets().Delete(t.Context(), act.ID); err != nil {
		t.Fatal(err)
	}
	for {
		if _, _, err := person.ReadMessage(); err != nil {
			break // the stream has ended
		}
	}
	h.audited("control.taken", "viewer.left")
	say(t, other, 3, 2, 0, 'b', 0, 48)
	h.played(vmtest.Event{Kind: "key", Keysym: 'b', Keycode: 48, Down: true})
	if err := h.client.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "seconds are counted", func() bool {
		list, err := h.Host.Usage.Events(t.Context(), billing.Query{})
		return err == nil && slices.ContainsFunc(list.Events, func(e api.UsageEvent) bool {
			return e.Kind == string(billing.ViewerSeconds) && e.Value >= 3
		})
	})
}

// TestCookie: a browser's cookie opens the stream from a page of ours alone.
func TestCookie(t *testing.T) {
	h := newHouse(t, nil)
	body, err := json.Marshal(api.OpenView{Ticket: h.ticket("view").Ticket})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/view", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", h.url)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	cookie := resp.Cookies()[0].String()
	for _, tc := range []struct {
		name   string
		header []string
		want   int
	}{
		{"ours", []string{"Cookie", cookie, "Origin", h.url}, http.StatusSwitchingProtocols},
		{"of no page", []string{"Cookie", cookie}, http.StatusForbidden},
		{"of another", []string{"Cookie", cookie, "Origin", "https://evil.example"}, http.StatusForbidden},
		{"nobody", nil, http.StatusUnauthorized},
	} {
		if _, status := h.watch(tc.header...); status != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, status, tc.want)
		}
	}
}

// whep makes a call under a secret.
func (h *house) whep(method, path, secret, body string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(h.t.Context()), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/sdp")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// TestTicketOfWHEP: a viewer by WebRTC is under its ticket as one of the WebSocket
// is, after the call that made it too, and nobody else ends it.
func TestTicketOfWHEP(t *testing.T) {
	h := newHouse(t, nil)
	mine, other := h.ticket("view"), h.ticket("admin")
	made := h.whep(http.MethodPost, h.path("/whep"), mine.Ticket, sdp(offer))
	if made.StatusCode != http.StatusCreated {
		t.Fatal(made.Status)
	}
	location := made.Header.Get("Location")
	h.audited("viewer.joined webrtc as view")
	for _, secret := range []string{other.Ticket, h.token} {
		if resp := h.whep(http.MethodDelete, location, secret, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("somebody else's end: %s", resp.Status)
		}
	}
	if err := h.client.Tickets().Delete(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	h.audited("viewer.joined webrtc as view", "viewer.left")
	again := h.whep(http.MethodPost, h.path("/whep"), other.Ticket, sdp(offer))
	if resp := h.whep(http.MethodDelete, again.Header.Get("Location"), other.Ticket, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("its own end: %s", resp.Status)
	}
	h.audited("viewer.joined webrtc as admin", "viewer.left")
	if resp := h.whep(http.MethodPost, h.path("/whep"), mine.Ticket, sdp(offer)); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after its end a ticket is answered %s", resp.Status)
	}
}
