//go:build more

package sandboxes_test

import (
	"testing"
	"time"

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
	renew := time.NewTicker(30 * time.Second)
	defer renew.Stop()
	for over := time.After(silence); ; {
		select {
		case <-renew.C:
			d.call("POST", at+"/lease", api.RenewLease{TTLMS: 90_000}, api.HeaderGeneration, "1").into(t, 200, &struct{}{})
			continue
		case <-over:
		}
		break
	}
	c.write("still here")
	if got := c.out(10); got != "still here" {
		t.Errorf("heard %q", got)
	}
	c.say(api.ProcessMessage{Type: "stdin_close"})
	if m := c.until("exit"); m.Code == nil || *m.Code != 0 {
		t.Errorf("exit %+v", m)
	}
	c.bye()
}
