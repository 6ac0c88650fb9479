package view_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestPolicies: what a desktop's policy says of people holds.
func TestPolicies(t *testing.T) {
	d := newDoor(t, nil)
	t.Run("dropped files", func(t *testing.T) { testDrop(t, d) })
	t.Run("programs", func(t *testing.T) { testExec(t, d) })
	t.Run("clipboards", func(t *testing.T) { testClipboard(t, d) })
}

// testDrop: a file that is dropped lands in the folder, whatever it is called.
func testDrop(t *testing.T, d *door) {
	t.Helper()
	dir := t.TempDir()
	if _, err := d.client.Control().SetPolicy(t.Context(), api.ControlPolicy{Drop: dir}); err != nil {
		t.Fatal(err)
	}
	act, look := d.ticket("control"), d.ticket("view")
	path := "/v1/desktops/" + d.desktop.ID + "/dropped/"
	for _, tc := range []struct {
		name, ticket string
		want         int
	}{
		{"a%20b.txt", act.Ticket, http.StatusCreated},
		{"a%20b.txt", act.Ticket, http.StatusConflict},
		{"..%2fetc", act.Ticket, http.StatusUnprocessableEntity},
		{"c.txt", look.Ticket, http.StatusForbidden},
	} {
		resp, body := d.send(http.MethodPut, path+tc.name, "text", "Authorization", "Bearer "+tc.ticket, "Content-Type", "application/octet-stream")
		if resp.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, resp.StatusCode, tc.want, body)
		}
	}
	got, err := d.client.Files().List(t.Context(), dir)
	if err != nil || len(got) != 1 || got[0].Name != "a b.txt" {
		t.Errorf("the folder has %+v, %v", got, err)
	}
}

// testExec: a desktop whose policy says so runs no programs while a person has
// control.
func testExec(t *testing.T, d *door) {
	t.Helper()
	ctx := t.Context()
	if _, err := d.client.Control().SetPolicy(ctx, api.ControlPolicy{Exec: "refuse"}); err != nil {
		t.Fatal(err)
	}
	person := d.client.Holding("me", 0)
	if _, err := person.Control().Change(ctx, api.ChangeControl{Action: api.ControlTake, As: api.ControlPerson}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.Exec(ctx, "true"); !errors.Is(err, &api.Error{Code: api.CodeControlHeld}) {
		t.Errorf("exec: %v", err)
	}
	if _, err := person.Control().Change(ctx, api.ChangeControl{Action: api.ControlRelease}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.Exec(ctx, "true"); err != nil {
		t.Error(err)
	}
}

// greeted does the handshake of RFB over a WebSocket, by hand.
func (d *door) greeted(secret string) *pipe {
	d.t.Helper()
	ws, resp, err := d.socket(d.t.Context(), "Authorization", "Bearer "+secret)
	if err != nil {
		d.t.Fatal(err)
	}
	resp.Body.Close()
	p := &pipe{Conn: ws}
	d.t.Cleanup(func() { p.Close() })
	for _, step := range []struct {
		read  int
		write string
	}{{12, "RFB 003.008\n"}, {2, "\x01"}, {4, "\x01"}, {24 + len("one"), ""}} {
		if _, err := io.ReadFull(p, make([]byte, step.read)); err != nil {
			d.t.Fatal(err)
		}
		if _, err := p.Write([]byte(step.write)); err != nil {
			d.t.Fatal(err)
		}
	}
	return p
}

// testClipboard: as the policy has it a person's texts come in and the desktop's go
// out, while he has control; then the desktop's clipboard is wiped.
func testClipboard(t *testing.T, d *door) {
	t.Helper()
	ctx := t.Context()
	cut := []byte{6, 0, 0, 0, 0, 0, 0, 5, 'h', 'e', 'l', 'l', 0xf6}
	press := []byte{4, 1, 0, 0, 0, 0, 0, 'a'}
	held := func(want bool) func() bool {
		return func() bool {
			c, err := d.client.Control().Status(ctx)
			return err == nil && c.Held == want
		}
	}
	text := func() string {
		got, err := d.client.Clipboard().Text(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if _, err := d.client.Control().SetPolicy(ctx, api.ControlPolicy{}); err != nil {
		t.Fatal(err)
	}
	if err := d.client.Clipboard().SetText(ctx, "old"); err != nil {
		t.Fatal(err)
	}
	send := func(p *pipe, messages ...[]byte) {
		t.Helper()
		for _, m := range messages {
			if _, err := p.Write(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := d.greeted(d.ticket("control").Ticket)
	send(p, press, cut, press)
	until(t, "the person has control", held(true))
	if _, err := io.ReadFull(p, make([]byte, 1)); err != nil { // the bell: nothing goes in
		t.Fatal(err)
	}
	if got := text(); got != "old" {
		t.Errorf("without a policy the clipboard is %q", got)
	}
	p.Close()
	until(t, "control is released", held(false))
	if _, err := d.client.Control().SetPolicy(ctx, api.ControlPolicy{Clipboard: "both"}); err != nil {
		t.Fatal(err)
	}
	p = d.greeted(d.ticket("control").Ticket)
	send(p, press, cut)
	until(t, "the text is in", func() bool { return text() == "hellö" })
	out := make([]byte, 13)
	if _, err := io.ReadFull(p, out); err != nil || string(out[8:]) != "hell\xf6" {
		t.Errorf("out comes %q, %v", out, err)
	}
	p.Close()
	until(t, "the clipboard is wiped", func() bool {
		got, err := d.client.Clipboard().Text(ctx)
		return got == "" && (err == nil || errors.Is(err, &api.Error{Code: api.CodeNotFound}))
	})
}
