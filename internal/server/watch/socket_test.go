//go:build cgo

package watch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// watcher is a client of the WebSocket.
type watcher struct {
	*websocket.Conn

	said api.StreamMessage
}

func (d *door) watch(t *testing.T, query string) *watcher {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{api.SubprotocolStream, api.SubprotocolToken + mine}}
	ws, resp, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.url, "http")+"/v1/desktops/one/stream"+query, nil)
	if err != nil {
		t.Fatal(err, resp)
	}
	t.Cleanup(func() { ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(2 * time.Minute)) // of the whole test
	return &watcher{Conn: ws}
}

// next is the next binary message; what is said meanwhile is kept.
func (w *watcher) next() ([]byte, error) {
	for {
		kind, b, err := w.ReadMessage()
		if err != nil || kind == websocket.BinaryMessage {
			return b, err
		}
		if !bytes.Contains(b, []byte(`"begin"`)) {
			return nil, errors.New(string(b))
		}
		size := func(name string) (n int) {
			_, rest, _ := strings.Cut(string(b), `"`+name+`":`)
			_, _ = fmt.Sscanf(rest, "%d", &n) // 0 is told by the picture
			return n
		}
		w.said.Width, w.said.Height = size("width"), size("height")
	}
}

// TestSocket: the same pictures over a WebSocket, as whatever the client decodes.
func TestSocket(t *testing.T) {
	d := newDoor(t, false)
	for _, tc := range []struct {
		query string
		codec video.Codec
	}{{"", video.Tiles}, {"?codec=av1,vp9,tiles", video.VP9}, {"?codec=vp8", video.VP8}} {
		t.Run(string(tc.codec), func(t *testing.T) {
			w := d.watch(t, tc.query)
			dec := videotest.NewDecoder(t, tc.codec)
			pointed, last := false, uint32(0)
			for n := 0; ; n++ {
				b, err := w.next()
				if err != nil {
					t.Fatal(err)
				}
				if b[0] != 1 {
					pointed = true
					continue
				}
				at := binary.BigEndian.Uint32(b[4:])
				if at < last {
					t.Errorf("time goes back from %d to %d µs", last, at)
				}
				last = at
				img, err := dec.Decode(b[12:], w.said.Width, w.said.Height)
				if err != nil {
					t.Fatal(err)
				}
				if psnr := videotest.PSNR(img, d.source.Image()); psnr > 34 && pointed {
					break
				}
			}
			if err := w.WriteMessage(websocket.BinaryMessage, []byte{7, 0, 0, 0, 1}); err != nil {
				t.Fatal(err)
			}
			for key := false; !key; {
				b, err := w.next()
				if err != nil {
					t.Fatal(err)
				}
				key = b[0] == 1 && b[1] == 1
			}
		})
	}
}

// TestSocketRefused: what is not understood ends the viewer, with a word.
func TestSocketRefused(t *testing.T) {
	d := newDoor(t, false)
	if resp, body := d.do(t, "GET", "/v1/desktops/one/stream?codec=h264", ""); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, _ := d.do(t, "GET", "/v1/desktops/one/stream", ""); resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("%s", resp.Status)
	}
	w := d.watch(t, "")
	if err := w.WriteMessage(websocket.BinaryMessage, []byte{99}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.next(); err != nil {
			if !strings.Contains(err.Error(), "malformed message") {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}
