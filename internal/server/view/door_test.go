package view_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
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
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// door is a server over a host whose machines have a synthetic screen, reached the
// way that real ones are.
type door struct {
	*hosttest.Fixture

	t       *testing.T
	url     string
	token   string
	desktop api.Desktop
	client  *client.Desktop
	log     *logged
}

// logged is what the server logs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// The smallest screen that a desktop may have: the race detector looks at each
// access to a pixel, in each of the hands that it goes through.
const width, height = 320, 200

// picture is a screen that is not blank.
func picture(size image.Point) *image.RGBA {
	cell := size.X / 16
	img := image.NewRGBA(image.Rectangle{Max: size})
	for y := 0; y < size.Y; y += cell {
		for x := 0; x < size.X; x += cell {
			c := color.RGBA{byte(40 + x/2), byte(40 + y), byte(x ^ y), 255} // never black
			draw.Draw(img, image.Rect(x, y, x+cell, y+cell), image.NewUniform(c), image.Point{}, draw.Src)
		}
	}
	return img
}

// newDoor serves one desktop until the test ends. wrap puts another handler before
// the server's; nil: none. change adjusts the server.
func newDoor(t *testing.T, wrap func(http.Handler) http.Handler, change ...func(*server.Config)) *door {
	t.Helper()
	return newDoorOf(t, image.Pt(width, height), wrap, change...)
}

// newDoorOf is newDoor for a screen of another size.
func newDoorOf(t *testing.T, size image.Point, wrap func(http.Handler) http.Handler, change ...func(*server.Config)) *door {
	t.Helper()
	d := &door{t: t, log: &logged{}}
	d.Fixture = hosttest.New(t, func(c *host.Config) {
		c.Images = &hosttest.Images{Display: api.Display{Width: size.X, Height: size.Y}}
		c.Open = func(cfg reach.Config) (*live.Desktop, error) { return adapter.Opener(cfg) }
	})
	d.Provider.OnBorn(func(m *hosttest.Machine) {
		m.Screen().Draw(picture(size))
		m.Guest.Desktop.Override(hosttest.DrawnWindows)
	})
	cfg := server.Config{Host: d.Host, Address: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(d.log, nil))}
	for _, fn := range change {
		fn(&cfg)
	}
	d.url, d.token = servertest.Serve(t, cfg, wrap)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.log.String())
		}
	})
	d.desktop = d.Create(api.CreateDesktop{Name: "one"})
	d.client = d.as(d.token).Desktop(d.desktop.ID)
	return d
}

func (d *door) as(token string) *client.Client {
	d.t.Helper()
	c, err := client.New(d.url, client.WithToken(token), client.WithRetries(0, 0))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *door) screen() *vmtest.Screen { return d.Machine(d.desktop.ID).Screen() }

// ticket makes a ticket of a role.
func (d *door) ticket(role string) api.Ticket {
	d.t.Helper()
	got, err := d.client.Tickets().Create(d.t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role})
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// send sends a request with headers, two strings each, and answers status and body.
func (d *door) send(method, path, body string, header ...string) (*http.Response, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp, string(b)
}

// exchange makes a browser's cookie of a ticket.
func (d *door) exchange(secret string) (*http.Cookie, int) {
	d.t.Helper()
	body, err := json.Marshal(api.OpenView{Ticket: secret})
	if err != nil {
		d.t.Fatal(err)
	}
	resp, _ := d.send(http.MethodPost, "/v1/view", string(body), "Origin", d.url)
	for _, c := range resp.Cookies() {
		return c, resp.StatusCode
	}
	return nil, resp.StatusCode
}

// socket opens the screen with headers, two strings each.
func (d *door) socket(ctx context.Context, header ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{Subprotocols: []string{"binary"}}
	return dialer.DialContext(ctx, "ws"+strings.TrimPrefix(d.url, "http")+"/v1/desktops/"+d.desktop.ID+"/rfb", h)
}

// pipe is a WebSocket as a net.Conn.
type pipe struct {
	*websocket.Conn

	rest io.Reader
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		if p.rest == nil {
			_, r, err := p.NextReader()
			if err != nil {
				return 0, err
			}
			p.rest = r
		}
		n, err := p.rest.Read(b)
		if errors.Is(err, io.EOF) {
			p.rest, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	return len(b), p.WriteMessage(websocket.BinaryMessage, b)
}

func (p *pipe) SetDeadline(t time.Time) error {
	if err := p.SetReadDeadline(t); err != nil {
		return err
	}
	return p.SetWriteDeadline(t)
}

var _ net.Conn = (*pipe)(nil)

// watch connects a viewer that shows a secret as bearer.
func (d *door) watch(secret string) *rfb.Client {
	d.t.Helper()
	c, err := rfb.New(rfb.Config{Dial: func(ctx context.Context) (net.Conn, error) {
		ws, resp, err := d.socket(ctx, "Authorization", "Bearer "+secret)
		if resp != nil {
			resp.Body.Close()
		}
		return &pipe{Conn: ws}, err
	}, Compress: true, Timeout: time.Minute, Idle: time.Hour})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { _ = c.Run(ctx) }) // ends with ctx
	d.t.Cleanup(func() { cancel(); wait.Wait() })
	return c
}

// until waits until ok, or fails the test.
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
