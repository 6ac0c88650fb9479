package view_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

// wide makes a ticket of the project.
func (d *door) wide(role string) api.Ticket {
	d.t.Helper()
	got, err := d.as(d.token).ProjectTickets().Create(d.t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role})
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// TestProjectTickets: under a ticket of a project a browser sees all its desktops, and
// nothing of others; the role says what else it may do.
func TestProjectTickets(t *testing.T) {
	d := newDoor(t, nil)
	path := "/v1/desktops/" + d.desktop.ID
	look, act, all := d.wide("view"), d.wide("control"), d.wide("admin")
	if !strings.HasPrefix(look.URL, d.url+"/#ticket=") {
		t.Errorf("link %s", look.URL)
	}
	browser := func(secret string) []string {
		c, status := d.exchange(secret)
		if status != http.StatusOK || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/v1/" || c.Value == secret {
			t.Fatalf("%d, cookie %+v", status, c)
		}
		return []string{"Cookie", c.Name + "=" + c.Value, "Origin", d.url}
	}
	looks, acts, may := browser(look.Ticket), browser(act.Ticket), browser(all.Ticket)
	one, _ := d.exchange(d.ticket("admin").Ticket)
	alone := []string{"Cookie", one.Name + "=" + one.Value, "Origin", d.url}
	other, err := d.as(d.token).Tokens().Create(t.Context(), api.CreateToken{Name: "other", Project: "other", Scopes: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := d.as(other.Secret).ProjectTickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: "control"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.as(other.Secret).ProjectTickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: "admin"}); err == nil {
		t.Error("a ticket of role admin without the scope")
	}
	stranger := browser(foreign.Ticket)
	noOrigin, elsewhere := acts[:2], append(acts[:2:2], "Origin", "https://evil.example")
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"list", "GET", "/v1/desktops", "", looks, http.StatusOK},
		{"tree", "GET", "/v1/tree", "", looks, http.StatusOK},
		{"use", "GET", "/v1/cost/report", "", looks, http.StatusOK},
		{"itself", "GET", "/v1/view", "", looks, http.StatusOK},
		{"a desktop", "GET", path, "", looks, http.StatusOK},
		{"a desktop's view", "GET", path + "/view", "", looks, http.StatusOK},
		{"a glance", "GET", path + "/screenshot?peek=true&format=jpeg&max_width=320", "", looks, http.StatusOK},
		{"tokens", "GET", "/v1/tokens", "", may, http.StatusUnauthorized},
		{"programs", "POST", path + "/exec", `{"argv":["true"]}`, may, http.StatusUnauthorized},
		{"a viewer forks", "POST", path + "/fork", `{}`, looks, http.StatusForbidden},
		{"from no page", "POST", path + "/fork", `{}`, noOrigin, http.StatusForbidden},
		{"from another page", "POST", path + "/fork", `{}`, elsewhere, http.StatusForbidden},
		{"a fork", "POST", path + "/fork", `{}`, acts, http.StatusCreated},
		{"a new one", "POST", "/v1/desktops", `{"image":"test","name":"two"}`, acts, http.StatusCreated},
		{"a pause", "POST", path + "/pause", "", acts, http.StatusOK},
		{"its screen at rest", "GET", path + "/screenshot?peek=true", "", looks, http.StatusOK},
		{"going on", "POST", path + "/resume", "", acts, http.StatusOK},
		{"who may not deletes", "DELETE", path, "", acts, http.StatusForbidden},
		{"another project", "GET", path, "", stranger, http.StatusNotFound},
		{"another project's screen", "GET", path + "/screenshot", "", stranger, http.StatusNotFound},
		{"another project forks", "POST", path + "/fork", `{}`, stranger, http.StatusNotFound},
		{"one desktop's ticket forks", "POST", path + "/fork", `{}`, alone, http.StatusForbidden},
		{"one desktop's ticket lists", "GET", "/v1/desktops", "", alone, http.StatusUnauthorized},
		// Who has both has the better of them.
		{"both", "POST", path + "/control", `{"action":"take"}`, []string{"Cookie", alone[1] + "; " + looks[1], "Origin", d.url}, http.StatusOK},
		{"an end", "DELETE", path, "", may, http.StatusNoContent},
	} {
		if resp, body := d.send(tc.method, tc.path, tc.body, tc.header...); resp.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, resp.StatusCode, tc.want, body)
		}
	}
	if list, err := d.as(d.token).ProjectTickets().List(t.Context()); err != nil || len(list) != 3 || list[0].Ticket != "" {
		t.Errorf("tickets %+v, %v", list, err)
	}
	if err := d.as(other.Secret).ProjectTickets().Delete(t.Context(), look.ID); err == nil {
		t.Error("another project ends a ticket")
	}
	if err := d.as(d.token).ProjectTickets().Delete(t.Context(), look.ID); err != nil {
		t.Fatal(err)
	}
	if resp, _ := d.send(http.MethodGet, "/v1/desktops", "", looks...); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after its end a ticket's browser sees %d", resp.StatusCode)
	}
	for _, secret := range []string{look.Ticket, act.Ticket, all.Ticket, looks[1], one.Value} {
		if strings.Contains(d.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}
