package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// newStuckDoor has a desktop whose guest answers nothing before it is let go, and
// one that is well. A short call may take so long.
func newStuckDoor(t *testing.T, call time.Duration) (d *door, asked chan struct{}, letGo func()) {
	t.Helper()
	d = newDoor(t, func(c *server.Config) {
		c.Limits = server.Limits{Requests: 4, Queue: 64, Wait: time.Hour, Call: call}
	})
	stuck := d.Create(api.CreateDesktop{Name: "stuck"})
	d.Create(api.CreateDesktop{Name: "other"})
	asked, free := make(chan struct{}, 64), make(chan struct{})
	letGo = sync.OnceFunc(func() { close(free) })
	t.Cleanup(letGo)
	d.Machine(stuck.ID).Guest.Desktop.Override(func(ctx context.Context, _ guest.HelperMessage) *guest.HelperMessage {
		asked <- struct{}{}
		select {
		case <-ctx.Done():
		case <-free:
		}
		return nil
	})
	return d, asked, letGo
}

// four calls the stuck guest four times at once, and looks at each answer.
func (d *door) four(t *testing.T, check func(*http.Response)) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { check(d.do(t, "GET", "/v1/desktops/stuck/windows", "")) })
	}
	return all.Wait
}

// TestStuckGuest: calls to a guest that answers nothing end by themselves.
func TestStuckGuest(t *testing.T) {
	hosttest.NoLeaks(t)
	d, _, _ := newStuckDoor(t, 300*time.Millisecond)
	d.four(t, func(resp *http.Response) {
		var e api.Error
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != api.CodeDeadline || resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("a stuck guest answers %d, %+v, %v", resp.StatusCode, e, err)
		}
	})()
}

// TestStuckGuestTakesNoRoom: calls that do not end are in the way of none to
// another guest.
func TestStuckGuestTakesNoRoom(t *testing.T) {
	hosttest.NoLeaks(t)
	d, asked, letGo := newStuckDoor(t, time.Hour)
	wait := d.four(t, func(resp *http.Response) {
		if resp.StatusCode != http.StatusOK {
			t.Errorf("let go it answers %d", resp.StatusCode)
		}
	})
	<-asked
	waitFor(t, func() bool { // the four, and this one
		return strings.Contains(d.metrics(t), "\ndeskfork_http_requests_in_flight 5\n")
	})
	if resp := d.do(t, "GET", "/v1/desktops/other/windows", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("another guest answers %d", resp.StatusCode)
	}
	letGo()
	wait()
}

func (d *door) metrics(t *testing.T) string {
	t.Helper()
	resp := d.do(t, "GET", "/metrics", "")
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
