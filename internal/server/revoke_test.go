package server_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestRevocation: all that is open under a token ends with it, says why, and
// what is open under another goes on.
func TestRevocation(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	ctx := t.Context()
	tok, err := d.Client.Tokens().Create(ctx, api.CreateToken{Name: "gone", Scopes: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := client.New(d.HTTP.URL, client.WithToken(tok.Secret), client.WithPatience(0))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + tok.Secret}}
	st, err := d.Client.Desktop("one").Execs().Start(ctx, api.Exec{Argv: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}

	events := d.do(t, "GET", "/v1/events", "", "Authorization", "Bearer "+tok.Secret)
	stays := d.do(t, "GET", "/v1/events", "")
	exec, _ := d.dial(t, "/v1/desktops/one/execs/"+st.ID+"/attach", api.SubprotocolExec, header)
	text(t, exec)
	echo := silent(t)
	tcp, _ := d.dial(t, "/v1/desktops/one/tcp/"+echo, api.SubprotocolTCP, header)
	port, err := strconv.Atoi(echo)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := gone.Desktop("one").Preview(ctx, port, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.Client.Desktop("one").Preview(ctx, port, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	page := d.do(t, "GET", "/preview/"+ticket.Ticket+"/stream", "", "Authorization", "")
	stalled, upload := io.Pipe()
	defer upload.CloseWithError(io.ErrUnexpectedEOF)
	uploaded := make(chan error, 1)
	go func() {
		_, err := gone.Desktop("one").Files().Write(ctx, "/tmp/never", stalled, client.WriteOptions{})
		uploaded <- err
	}()
	if _, err := io.WriteString(upload, strings.Repeat("x", 1<<20)); err != nil { // it is on its way
		t.Fatal(err)
	}

	if err := d.Client.Tokens().Delete(ctx, tok.ID); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(events.Body)
	if err != nil || !strings.Contains(string(said), "event: error\n") || !strings.Contains(string(said), `"unauthorized"`) {
		t.Errorf("events ended with %q, %v", said, err)
	}
	if m := text(t, exec); m.Kind != "error" || m.Error.Code != api.CodeUnauthorized {
		t.Errorf("exec ended with %+v", m)
	}
	var last api.TCPMessage
	if err := tcp.ReadJSON(&last); err != nil || last.Kind != "error" || last.Error.Code != api.CodeUnauthorized {
		t.Errorf("tcp ended with %+v, %v", last, err)
	}
	if _, err := io.ReadAll(page.Body); err == nil {
		t.Error("a page under the ticket ended as if it were whole")
	}
	select {
	case err := <-uploaded:
		if !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
			t.Errorf("upload ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a stalled upload goes on")
	}
	for path, want := range map[string]int{
		"/preview/" + ticket.Ticket + "/": http.StatusUnauthorized, "/preview/" + other.Ticket + "/": http.StatusOK,
	} {
		if resp := d.do(t, "GET", path, "", "Authorization", ""); resp.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, resp.StatusCode, want)
		}
	}
	if _, err := gone.Info(ctx); !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("the next call answers %v", err)
	}
	if got, err := d.Client.Desktop("one").Execs().Get(ctx, st.ID); err != nil || !got.Running {
		t.Errorf("the exec itself: %+v, %v", got, err)
	}
	if _, err := d.Client.Desktop("one").Execs().Start(ctx, api.Exec{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stays.Body).ReadString('\n'); err != nil || line == "" {
		t.Errorf("events under another token: %q, %v", line, err)
	}
}

// silent serves a page that begins and never ends, and answers its port.
func silent(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL[strings.LastIndexByte(s.URL, ':')+1:]
}
