//go:build more

package sandboxes_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestLongSilentProcess: nobody cuts a process, nor its connection, of which nothing is
// heard for longer than ten minutes while the lease is renewed.
func TestLongSilentProcess(t *testing.T) {
	t.Parallel()
	const silence = 10*time.Minute + 20*time.Second
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	c, _ := d.talk(at, spawn("silent", "sh", "-c", "cat"))
	_ = c.ws.SetReadDeadline(time.Now().Add(silence + time.Minute))
	spoken := make(chan struct{})
	go func() { // beside the reader, who answers the server's pings
		defer close(spoken)
		renew := time.NewTicker(30 * time.Second)
		defer renew.Stop()
		for over := time.After(silence); ; {
			select {
			case <-renew.C:
				if a := d.call("POST", at+"/lease", api.RenewLease{TTLMS: 90_000}, api.HeaderGeneration, "1"); a.status != http.StatusOK {
					t.Errorf("renew: %+v", a)
				}
			case <-over:
				if err := c.ws.WriteMessage(websocket.BinaryMessage, frame(api.ChannelStdin, c.sent, "still here")); err != nil {
					t.Error(err)
				}
				return
			}
		}
	}()
	if got := c.out(10); got != "still here" {
		t.Errorf("heard %q", got)
	}
	<-spoken
	c.say(api.ProcessMessage{Type: "stdin_close"})
	if m := c.until("exit"); m.Code == nil || *m.Code != 0 {
		t.Errorf("exit %+v", m)
	}
	c.bye()
}
