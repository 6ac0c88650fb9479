package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestStuckGuest: calls to a guest that answers nothing end by themselves, and
// take no room from calls to another.
func TestStuckGuest(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t, func(c *server.Config) {
		c.Limits = server.Limits{Requests: 4, Queue: 64, Wait: 20 * time.Second, Call: 700 * time.Millisecond}
	})
	stuck := d.Create(api.CreateDesktop{Name: "stuck"})
	d.Create(api.CreateDesktop{Name: "other"})
	asked := make(chan struct{}, 64)
	d.Machine(stuck.ID).Guest.Desktop.Override(func(ctx context.Context, _ guest.HelperMessage) *guest.HelperMessage {
		asked <- struct{}{}
		<-ctx.Done()
		return nil
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			resp := d.do(t, "GET", "/v1/desktops/stuck/windows", "")
			var e api.Error
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != api.CodeDeadline || resp.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("a stuck guest answers %d, %+v, %v", resp.StatusCode, e, err)
			}
		})
	}
	<-asked
	for !strings.Contains(d.metrics(t), "\ndeskfork_http_requests_in_flight 5\n") { // the four, and this one
		runtime.Gosched()
	}
	start := time.Now()
	if resp := d.do(t, "GET", "/v1/desktops/other/windows", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("another guest answers %d", resp.StatusCode)
	}
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("another guest answers after %s", took)
	}
	all.Wait()
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
