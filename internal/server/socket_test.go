package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// dial opens a WebSocket with the first token, or with the headers given.
func (d *door) dial(t *testing.T, path, protocol string, header http.Header) (*websocket.Conn, *http.Response) {
	t.Helper()
	if header == nil {
		header = http.Header{"Authorization": {"Bearer " + d.Token}}
	}
	dialer := websocket.Dialer{HandshakeTimeout: time.Minute}
	if protocol != "" {
		dialer.Subprotocols = strings.Split(protocol, " ")
	}
	ws, resp, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.HTTP.URL, "http")+path, header)
	if err != nil && resp == nil {
		t.Fatal(err)
	}
	if ws != nil {
		t.Cleanup(func() { ws.Close() })
		_ = ws.SetReadDeadline(time.Now().Add(3 * time.Minute)) // of the whole test
	}
	return ws, resp
}

func TestAttach(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	execs := d.Client.Desktop("one").Execs()
	ctx := t.Context()

	t.Run("streams both ways", func(t *testing.T) {
		const size = 3 << 20
		var out, bad bytes.Buffer
		st, err := execs.Command(ctx, api.Exec{Shell: "tee /dev/stderr; exit 9"}, client.Streams{
			Stdin: io.LimitReader(zeros{}, size), Stdout: &out, Stderr: &bad,
		})
		if err != nil {
			t.Fatal(err)
		}
		if st.ExitCode != 9 || out.Len() != size || bad.Len() != size {
			t.Errorf("exit %d, %d and %d bytes", st.ExitCode, out.Len(), bad.Len())
		}
	})
	t.Run("survives its client", func(t *testing.T) {
		st, err := execs.Start(ctx, api.Exec{Shell: "read x; echo got $x", Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		ws, _ := d.dial(t, "/v1/desktops/one/execs/"+st.ID+"/attach", api.SubprotocolExec, nil)
		if m := text(t, ws); m.Kind != "attached" || !m.Status.Running {
			t.Fatalf("first message is %+v", m)
		}
		ws.Close()
		if got, err := execs.Get(ctx, st.ID); err != nil || !got.Running {
			t.Fatalf("after its client left: %+v, %v", got, err)
		}
		var out bytes.Buffer
		end, err := execs.Attach(ctx, st.ID, client.Streams{Stdin: strings.NewReader("it\n"), Stdout: &out})
		if err != nil || end.ExitCode != 0 || out.String() != "got it\n" {
			t.Errorf("%+v, %q, %v", end, out.String(), err)
		}
	})
	t.Run("signal", func(t *testing.T) {
		st, err := execs.Start(ctx, api.Exec{Argv: []string{"sleep", "600"}})
		if err != nil {
			t.Fatal(err)
		}
		ws, _ := d.dial(t, "/v1/desktops/one/execs/"+st.ID+"/attach", api.SubprotocolExec, nil)
		text(t, ws)
		if err := ws.WriteJSON(api.ExecMessage{Kind: "signal", Signal: "TERM"}); err != nil {
			t.Fatal(err)
		}
		if m := text(t, ws); m.Kind != "end" || m.Status.Signal != "TERM" {
			t.Errorf("last message is %+v", m)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		var out bytes.Buffer
		st, err := execs.Command(ctx, api.Exec{Shell: "stty size; test -t 0", PTY: true, Cols: 91, Rows: 33}, client.Streams{Stdout: &out})
		if err != nil || st.ExitCode != 0 || !strings.Contains(out.String(), "33 91") {
			t.Errorf("%+v, %q, %v", st, out.String(), err)
		}
	})
	t.Run("unknown exec", func(t *testing.T) {
		_, resp := d.dial(t, "/v1/desktops/one/execs/nope/attach", api.SubprotocolExec, nil)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// text reads the next text message, and past binary ones.
func text(t *testing.T, ws *websocket.Conn) api.ExecMessage {
	t.Helper()
	for {
		kind, body, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if kind != websocket.TextMessage {
			continue
		}
		var m api.ExecMessage
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func TestMalformedMessages(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	execs := d.Client.Desktop("one").Execs()
	st, err := execs.Start(t.Context(), api.Exec{Argv: []string{"sleep", "600"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		send func(*websocket.Conn) error
	}{
		{"no JSON", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte("{")) }},
		{"unknown kind", func(ws *websocket.Conn) error { return ws.WriteJSON(api.ExecMessage{Kind: "dance"}) }},
		{"no channel", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, nil) }},
		{"channel of the server", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, []byte{1, 'x'}) }},
		{"long text", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, make([]byte, 100<<10)) }},
		{"broken frame", func(ws *websocket.Conn) error {
			_, err := ws.NetConn().Write([]byte{0xff, 0xff, 0x00, 0x01})
			return err
		}},
		{"unmasked frame", func(ws *websocket.Conn) error {
			_, err := ws.NetConn().Write([]byte{0x81, 0x02, '{', '}'})
			return err
		}},
		{"cut off", func(ws *websocket.Conn) error { return ws.NetConn().Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws, _ := d.dial(t, "/v1/desktops/one/execs/"+st.ID+"/attach?stdin=true", api.SubprotocolExec, nil)
			text(t, ws)
			// A server that closes at the first bad byte may break the sending.
			if err := tt.send(ws); err != nil {
				t.Logf("sending ended: %v", err)
			}
			for {
				if _, _, err := ws.ReadMessage(); err != nil {
					var net net.Error
					if errors.As(err, &net) && net.Timeout() {
						t.Error("the connection stays open")
					}
					break
				}
			}
		})
	}
	if got, err := execs.Get(t.Context(), st.ID); err != nil || !got.Running {
		t.Errorf("the program is %+v, %v", got, err)
	}
	if err := execs.Forget(t.Context(), st.ID); err != nil {
		t.Error(err)
	}
}

func TestSocketAuth(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	st, err := d.Client.Desktop("one").Execs().Start(t.Context(), api.Exec{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/desktops/one/execs/" + st.ID + "/attach"
	tests := []struct {
		name, protocol string
		header         http.Header
		status         int
	}{
		{"no token", api.SubprotocolExec, http.Header{}, 401},
		{"token as a subprotocol", api.SubprotocolExec + " " + api.SubprotocolToken + d.Token, http.Header{}, 101},
		{"wrong token as a subprotocol", api.SubprotocolExec + " " + api.SubprotocolToken + "dfk_no", http.Header{}, 401},
		{"foreign origin", api.SubprotocolExec, http.Header{"Authorization": {"Bearer " + d.Token}, "Origin": {"http://evil.example"}}, 403},
		{"own origin", api.SubprotocolExec, http.Header{"Authorization": {"Bearer " + d.Token}, "Origin": {d.HTTP.URL}}, 101},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws, resp := d.dial(t, path, tt.protocol, tt.header)
			if resp.StatusCode != tt.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if ws != nil && ws.Subprotocol() != api.SubprotocolExec {
				t.Errorf("subprotocol %q", ws.Subprotocol())
			}
		})
	}
}

// listenEcho answers on a loopback port of the "guest" (which is this host).
func listenEcho(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	return addr.Port
}

func TestTCP(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	desk := d.Client.Desktop("one")
	port := listenEcho(t)
	conn, err := desk.Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 5 << 20
	go func() {
		_, _ = io.Copy(conn, io.LimitReader(zeros{}, size))
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	n, err := io.Copy(io.Discard, conn)
	if err != nil || n != size {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, resp := d.dial(t, "/v1/desktops/one/tcp/"+closed, api.SubprotocolTCP, nil)
	if e := problemOf(t, resp); e.Code != api.CodeRefused {
		t.Errorf("a closed port answers %+v", e)
	}
	ws, _ := d.dial(t, "/v1/desktops/one/tcp/"+strconv.Itoa(port), api.SubprotocolTCP, nil)
	if err := ws.WriteMessage(websocket.TextMessage, []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	if m := text(t, ws); m.Kind != "error" || m.Error == nil || m.Error.Code != api.CodeInvalid {
		t.Errorf("nonsense answers %+v", m)
	}
}

func TestPreview(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			ws, err := up.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer ws.Close()
			_ = ws.WriteMessage(websocket.TextMessage, []byte("hello"))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "app", Value: "1"})
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write([]byte(strings.Join([]string{
			r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Prefix"), string(body),
		}, "|")))
	}))
	defer app.Close()
	_, portText, err := net.SplitHostPort(strings.TrimPrefix(app.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := d.Client.Desktop("one").Preview(t.Context(), port, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(ticket.URL, d.HTTP.URL+"/preview/") {
		t.Errorf("URL %q", ticket.URL)
	}
	prefix := "/preview/" + ticket.Ticket
	resp := d.do(t, "POST", prefix+"/a/b?x=1", "body")
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := "POST|/a/b|x=1||" + prefix + "|body"; string(body) != want {
		t.Errorf("the app was asked %q, want %q", body, want)
	}
	if resp.Header.Get("Set-Cookie") != "" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("headers are %v", resp.Header)
	}
	ws, _ := d.dial(t, prefix+"/ws", "", http.Header{"Origin": {"null"}})
	if _, m, err := ws.ReadMessage(); err != nil || string(m) != "hello" {
		t.Errorf("%q, %v", m, err)
	}
	if resp := d.do(t, "OPTIONS", prefix+"/a", "", "Origin", "null", "Access-Control-Request-Method", "PUT"); resp.StatusCode != http.StatusNoContent {
		t.Errorf("preflight answers %d", resp.StatusCode)
	}
	if err := d.Client.Desktop("one").Delete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if resp := d.do(t, "GET", prefix+"/", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a ticket of a deleted desktop answers %d", resp.StatusCode)
	}
}

// TestLogHidesSecrets proves that neither tokens nor tickets are written down.
func TestLogHidesSecrets(t *testing.T) {
	log := &logged{seen: make(chan map[string]string, 64)}
	d := newDoor(t, withLog(log))
	d.Create(api.CreateDesktop{Name: "one"})
	ticket, err := d.Client.Desktop("one").Preview(t.Context(), 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d.do(t, "GET", "/preview/"+ticket.Ticket+"/secret", "")
	d.do(t, "GET", "/v1/info?q="+d.Token, "")
	n := 0
	for len(log.seen) > 0 || n < 3 {
		entry := <-log.seen
		n++
		for k, v := range entry {
			if strings.Contains(v, ticket.Ticket) || strings.Contains(v, d.Token) {
				t.Errorf("%s says %q", k, v)
			}
		}
	}
}
