package view_test

import (
	"errors"
	"image"
	"image/color"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// TestTickets: what a ticket opens, to whom, and how it ends.
func TestTickets(t *testing.T) {
	d := newDoor(t, nil)
	path := "/v1/desktops/" + d.desktop.ID
	look, act := d.ticket("view"), d.ticket("control")
	if !strings.HasPrefix(look.URL, d.url+"/view/"+d.desktop.ID+"#ticket=") {
		t.Errorf("link %s", look.URL)
	}
	cookie, status := d.exchange(look.Ticket)
	if status != http.StatusOK || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != path+"/" || cookie.Value == look.Ticket {
		t.Fatalf("%d, cookie %+v", status, cookie)
	}
	mine := cookie.Name + "=" + cookie.Value
	acting, _ := d.exchange(act.Ticket)
	other := acting.Name + "=" + acting.Value
	second := d.Create(api.CreateDesktop{Name: "two"})
	take := `{"action":"take"}`
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"look", "GET", path + "/control", "", []string{"Cookie", mine}, http.StatusOK},
		{"screenshot", "GET", path + "/screenshot", "", []string{"Cookie", mine}, http.StatusOK},
		{"nothing", "GET", path + "/control", "", nil, http.StatusUnauthorized},
		{"as bearer", "GET", path + "/control", "", []string{"Authorization", "Bearer " + look.Ticket}, http.StatusOK},
		{"another desktop", "GET", "/v1/desktops/" + second.ID + "/control", "", []string{"Authorization", "Bearer " + look.Ticket}, http.StatusForbidden},
		{"other routes", "GET", path, "", []string{"Cookie", mine}, http.StatusForbidden},
		{"a viewer takes", "POST", path + "/control", take, []string{"Cookie", mine, "Origin", d.url}, http.StatusForbidden},
		{"from no page", "POST", path + "/control", take, []string{"Cookie", other}, http.StatusForbidden},
		{"from another page", "POST", path + "/control", take, []string{"Cookie", other, "Origin", "https://evil.example"}, http.StatusForbidden},
		{"a page takes", "POST", path + "/control", take, []string{"Cookie", other, "Origin", d.url}, http.StatusOK},
		{"policy", "PUT", path + "/control/policy", `{}`, []string{"Cookie", other, "Origin", d.url}, http.StatusForbidden},
	} {
		if resp, body := d.send(tc.method, tc.path, tc.body, tc.header...); resp.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, resp.StatusCode, tc.want, body)
		}
	}
	if _, status := d.exchange(cookie.Value); status != http.StatusUnauthorized {
		t.Errorf("a cookie's secret is exchanged: %d", status)
	}
	preview, err := d.client.Preview(t.Context(), 80, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, status := d.exchange(preview.Ticket); status != http.StatusUnauthorized {
		t.Errorf("a ticket of a port is exchanged: %d", status)
	}
	if resp, _ := d.send(http.MethodGet, "/preview/"+look.Ticket+"/", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a ticket of the screen opens a port: %d", resp.StatusCode)
	}
	list, err := d.client.Tickets().List(t.Context())
	if err != nil || len(list) != 3 || list[0].Ticket != "" {
		t.Errorf("tickets %+v, %v", list, err)
	}
	if err := d.client.Tickets().Delete(t.Context(), look.ID); err != nil {
		t.Fatal(err)
	}
	if resp, _ := d.send(http.MethodGet, path+"/control", "", "Cookie", mine); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after its end a ticket's browser sees %d", resp.StatusCode)
	}
	seen := map[int]int{}
	for range 40 { // who tries tickets is slowed down
		_, status := d.exchange("guess")
		seen[status]++
	}
	if seen[http.StatusTooManyRequests] == 0 || seen[http.StatusUnauthorized] < 20 {
		t.Errorf("guesses are answered %v", seen)
	}
	for _, secret := range []string{look.Ticket, act.Ticket, cookie.Value, acting.Value} {
		if strings.Contains(d.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

func pressed(list []vmtest.Event) bool {
	return slices.ContainsFunc(list, func(e vmtest.Event) bool { return e.Buttons != 0 })
}

// TestTakeover: a person who watches over RFB clicks into an agent's drag. The drag
// ends at once with control_held, its button is up before the person's is down, and
// the agent is refused, or waits, until the person has gone.
func TestTakeover(t *testing.T) {
	d := newDoor(t, nil)
	ctx := t.Context()
	viewer := d.watch(d.ticket("control").Ticket)
	f, err := viewer.Next(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := picture(image.Pt(width, height))
	for _, p := range []image.Point{{0, 0}, {170, 100}, {width - 1, height - 1}} {
		if got := f.Image.RGBAAt(p.X, p.Y); got != want.RGBAAt(p.X, p.Y) {
			t.Errorf("pixel %v is %v, want %v", p, got, want.RGBAAt(p.X, p.Y))
		}
	}
	drag := make(chan error, 1)
	go func() {
		drag <- d.client.Input().Drag(ctx, [][2]int{{10, 10}, {300, 190}}, "left", 50*time.Second)
	}()
	until(t, "the agent drags", func() bool { return pressed(d.screen().Events()) })
	if err := viewer.Pointer(ctx, 5, 5, 0); err != nil { // who only moves disturbs nobody
		t.Fatal(err)
	}
	before := time.Now()
	if err := viewer.Pointer(ctx, 40, 50, desktop.ButtonRight); err != nil {
		t.Fatal(err)
	}
	err = <-drag
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeControlHeld || e.Control == nil || e.Control.Kind != api.ControlPerson {
		t.Fatalf("the drag ends with %v", err)
	}
	if took := time.Since(before); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	until(t, "the person's button is down", func() bool {
		return slices.ContainsFunc(d.screen().Events(), func(e vmtest.Event) bool { return e.Buttons == 4 })
	})
	held := uint8(0)
	for _, e := range d.screen().Events() {
		if e.Kind != "pointer" {
			continue
		}
		if e.Buttons == 4 && held != 0 || e.X == 5 && e.Y == 5 {
			t.Errorf("event %+v after buttons %d", e, held)
		}
		held = e.Buttons
	}
	if err := d.client.Click(ctx, 1, 1); !errors.Is(err, &api.Error{Code: api.CodeControlHeld}) {
		t.Errorf("the agent's click: %v", err)
	}
	if resp, body := d.send(http.MethodPost, "/v1/desktops/"+d.desktop.ID+"/input", `{"actions":[{"kind":"move","x":1,"y":1}],"epoch":1}`,
		"Authorization", "Bearer "+d.token); resp.StatusCode != http.StatusConflict || !strings.Contains(body, "control_held") {
		t.Errorf("an old epoch: %d %s", resp.StatusCode, body)
	}
	waited := make(chan int, 1)
	go func() {
		resp, _ := d.send(http.MethodPost, "/v1/desktops/"+d.desktop.ID+"/input?wait=50s", `{"actions":[{"kind":"move","x":1,"y":1}]}`,
			"Authorization", "Bearer "+d.token)
		waited <- resp.StatusCode
	}()
	status, err := d.client.Control().Status(ctx)
	if err != nil || !status.Held || status.Kind != api.ControlPerson {
		t.Fatalf("%+v, %v", status, err)
	}
	for _, tk := range d.tickets() {
		if err := d.client.Tickets().Delete(ctx, tk.ID); err != nil { // the person's stream ends
			t.Fatal(err)
		}
	}
	if got := <-waited; got != http.StatusOK {
		t.Errorf("the agent that waited: %d", got)
	}
	d.audited("viewer.joined", "control.taken", "viewer.left")
}

func (d *door) tickets() []api.Ticket {
	d.t.Helper()
	list, err := d.client.Tickets().List(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

// audited waits until the log has had these lines in this order.
func (d *door) audited(want ...string) {
	d.t.Helper()
	until(d.t, "the log has "+strings.Join(want, ", "), func() bool {
		list, err := d.client.Control().Audit(d.t.Context(), 0)
		if err != nil {
			d.t.Fatal(err)
		}
		left := want
		for _, e := range slices.Backward(list) {
			if len(left) > 0 && e.What == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
}

// TestViewRole: who may only look sees, changes nothing, and is counted.
func TestViewRole(t *testing.T) {
	d := newDoor(t, nil)
	viewer := d.watch(d.ticket("view").Ticket)
	if _, err := viewer.Next(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := viewer.Pointer(t.Context(), 40, 50, desktop.ButtonLeft); err != nil {
		t.Fatal(err)
	}
	if err := viewer.Key(t.Context(), desktop.Key{Sym: 'a', Code: 0x1e}, true); err != nil {
		t.Fatal(err)
	}
	d.screen().Fill(image.Rect(0, 0, 100, 100), color.White) // what comes now is after them
	until(t, "the change is seen", func() bool {
		f, err := viewer.Frame(t.Context())
		return err == nil && f.Image.RGBAAt(50, 50) == color.RGBA{255, 255, 255, 255}
	})
	if list := d.screen().Events(); pressed(list) || slices.ContainsFunc(list, func(e vmtest.Event) bool { return e.Kind == "key" && e.Down }) {
		t.Errorf("events %v", list)
	}
	if c, err := d.client.Control().Status(t.Context()); err != nil || c.Held {
		t.Errorf("control %+v, %v", c, err)
	}
	<-time.After(1500 * time.Millisecond)
	if err := d.client.Delete(t.Context()); err != nil { // its use is closed with it
		t.Fatal(err)
	}
	until(t, "seconds are counted", func() bool {
		list, err := d.Host.Usage.Events(t.Context(), billing.Query{})
		return err == nil && slices.ContainsFunc(list.Events, func(e api.UsageEvent) bool {
			return e.Kind == string(billing.ViewerSeconds) && e.Value >= 1
		})
	})
}

// TestRevokedToken: with a token end the tickets that it made, and their streams.
func TestRevokedToken(t *testing.T) {
	d := newDoor(t, nil)
	tok, err := d.as(d.token).Tokens().Create(t.Context(), api.CreateToken{Name: "short", Scopes: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.as(tok.Secret).Desktop(d.desktop.ID).Tickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: "control"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.as(tok.Secret).Desktop(d.desktop.ID).Tickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: "admin"}); !errors.Is(err, &api.Error{Code: api.CodeForbidden}) {
		t.Errorf("a ticket of role admin without the scope: %v", err)
	}
	ws, resp, err := d.socket(t.Context(), "Authorization", "Bearer "+made.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	if ws.Subprotocol() != "binary" {
		t.Errorf("subprotocol %q", ws.Subprotocol())
	}
	if err := d.as(d.token).Tokens().Delete(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = ws.ReadMessage()
	}
	if _, resp, err := d.socket(t.Context(), "Authorization", "Bearer "+made.Ticket); err == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a new stream: %v", err)
	} else {
		resp.Body.Close()
	}
}
