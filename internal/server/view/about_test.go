package view_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestPage: what a page may find out and do under its ticket's role.
func TestPage(t *testing.T) {
	d := newDoor(t, nil)
	dir := t.TempDir()
	if _, err := d.client.Control().SetPolicy(t.Context(), api.ControlPolicy{Drop: dir}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"made.txt": "by the desktop"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	path := "/v1/desktops/" + d.desktop.ID
	look, act, all := d.ticket("view").Ticket, d.ticket("control").Ticket, d.ticket("admin").Ticket
	for _, tc := range []struct {
		name, ticket, method, path, body string
		status                           int
		says                             string
	}{
		{"who watches reads what it is", look, "GET", "/about", "", 200, `"name":"one"`},
		{"but not its environment", look, "GET", "/about", "", 200, `"state":"ready"`},
		{"not the folder", look, "GET", "/dropped", "", 403, "control"},
		{"who acts lists the folder", act, "GET", "/dropped", "", 200, "made.txt"},
		{"and reads from it", act, "GET", "/dropped/made.txt", "", 200, "by the desktop"},
		{"not where a link leads", act, "GET", "/dropped/link", "", 422, "no plain file"},
		{"not what is not there", act, "GET", "/dropped/no.txt", "", 404, ""},
		{"no other folder", act, "GET", "/list?path=/", "", 403, "admin"},
		{"no programs", act, "POST", "/execs", `{"argv":["true"]}`, 403, "admin"},
		{"no logs", act, "GET", "/logs", "", 403, "admin"},
		{"no tickets", act, "POST", "/tickets", `{"kind":"view"}`, 403, "admin"},
		{"an admin lists", all, "GET", "/list?path=" + dir, "", 200, "made.txt"},
		{"reads", all, "GET", "/files?path=" + dir + "/made.txt", "", 200, "by the desktop"},
		{"runs", all, "POST", "/execs", `{"argv":["true"]}`, 201, `"id"`},
		{"reads logs, of which a made up machine has none", all, "GET", "/logs?source=qemu", "", 404, "no log"},
		{"shares", all, "POST", "/tickets", `{"kind":"view","role":"control","ttl_s":86000}`, 201, "/view/" + d.desktop.ID + "#ticket="},
		{"not more than that", all, "POST", "/tickets", `{"kind":"view","role":"admin"}`, 403, ""},
		{"nor a port", all, "POST", "/tickets", `{"kind":"preview","port":80}`, 403, ""},
	} {
		resp, body := d.send(tc.method, path+tc.path, tc.body, "Authorization", "Bearer "+tc.ticket)
		if resp.StatusCode != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s, want %d with %q", tc.name, resp.StatusCode, body, tc.status, tc.says)
		}
		if tc.name == "shares" {
			var made api.Ticket
			if err := json.Unmarshal([]byte(body), &made); err != nil || time.Until(made.Expires) > time.Hour {
				t.Errorf("a ticket outlives the one that it was made under: %s, %v", made.Expires, err)
			}
		}
		if strings.Contains(body, `"env"`) {
			t.Errorf("%s: the environment is told", tc.name)
		}
	}
}

// TestTold: who watches is told what an agent begins to do.
func TestTold(t *testing.T) {
	d := newDoor(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/desktops/"+d.desktop.ID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.ticket("view").Ticket)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := d.client.Click(t.Context(), 30, 40); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for b := make([]byte, 4096); !strings.Contains(said.String(), "input.begun"); {
		n, err := resp.Body.Read(b)
		said.Write(b[:n])
		if err != nil {
			t.Fatalf("%v after %s", err, said.String())
		}
	}
	for _, want := range []string{`"kind":"click"`, `"x":30`, `"y":40`, `"kind":"agent"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %s in %s", want, said.String())
		}
	}
}
