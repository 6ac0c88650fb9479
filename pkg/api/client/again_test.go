package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// busy refuses the first calls for lack of room.
type busy struct {
	times int
	after string // Retry-After; empty: none
	calls int
}

func (b *busy) RoundTrip(*http.Request) (*http.Response, error) {
	b.calls++
	rec := httptest.NewRecorder()
	if b.calls <= b.times {
		if b.after != "" {
			rec.Header().Set("Retry-After", b.after)
		}
		rec.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(rec, `{"code":"rate_limited","detail":"full"}`)
		return rec.Result(), nil
	}
	_, _ = io.WriteString(rec, `{}`)
	return rec.Result(), nil
}

// TestRetryAfter: a server without room is asked again when it says so, not
// sooner, and not for ever.
func TestRetryAfter(t *testing.T) {
	exec := func(ctx context.Context, c *client.Client) error {
		_, err := c.Desktop("d").Exec(ctx, "true")
		return err
	}
	upload := func(ctx context.Context, c *client.Client) error {
		_, err := c.Snapshots().Import(ctx, "x", strings.NewReader("bytes"))
		return err
	}
	for _, tc := range []struct {
		name        string
		server      busy
		do          func(context.Context, *client.Client) error
		within      time.Duration // deadline; 0: none
		calls       int
		ok          bool
		least, most time.Duration
	}{
		{"seconds", busy{times: 2, after: "3"}, infoOf, 0, 3, true, 6 * time.Second, 7 * time.Second},
		{"a date", busy{times: 1, after: "Sat, 01 Jan 2000 00:00:05 GMT"}, infoOf, 0, 2, true, 5 * time.Second, 6 * time.Second},
		{"a date long gone", busy{times: 1, after: "Fri, 31 Dec 1999 00:00:05 GMT"}, infoOf, 0, 2, true, 0, time.Second},
		{"nothing said", busy{times: 2}, infoOf, 0, 3, true, 300 * time.Millisecond, time.Second},
		{"nonsense", busy{times: 1, after: "soon"}, infoOf, 0, 2, true, 100 * time.Millisecond, time.Second},
		{"a call that is never repeated otherwise", busy{times: 1, after: "1"}, exec, 0, 2, true, time.Second, 2 * time.Second},
		{"an upload cannot be sent twice", busy{times: 1, after: "1"}, upload, 0, 1, false, 0, 0},
		{"for ever", busy{times: 99, after: "1"}, infoOf, 0, 5, false, 4 * time.Second, 8 * time.Second},
		{"too long", busy{times: 1, after: "3600"}, infoOf, 0, 1, false, 0, 0},
		{"beyond the deadline", busy{times: 1, after: "10"}, infoOf, 5 * time.Second, 1, false, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tc.server
				c, err := client.New("h", client.WithTransport(&server))
				if err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				if tc.within > 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				start := time.Now()
				err = tc.do(ctx, c)
				took := time.Since(start)
				if (err == nil) != tc.ok || server.calls != tc.calls || took < tc.least || took > tc.most {
					t.Errorf("%v after %d calls and %s", err, server.calls, took)
				}
				if err != nil && !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) {
					t.Errorf("it failed with %v", err)
				}
			})
		})
	}
}

// TestStreamsOutlastAFullServer: what comes back after a broken link waits for room
// as long as the client has patience.
func TestStreamsOutlastAFullServer(t *testing.T) {
	s := clienttest.New(t)
	c, err := client.New(s.URL, client.WithToken(clienttest.Token), client.WithRetries(0, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s.Emit("desktop.created", "d1")
	full := api.Errorf(api.CodeRateLimited, "full")
	s.FailNext(full, full, full)
	for e, err := range c.Events(t.Context(), client.EventOptions{}) {
		if err != nil || e.Type != "desktop.created" {
			t.Errorf("%+v, %v", e, err)
		}
		break
	}
}

// TestRetryAfterOfSockets: a WebSocket is dialled again too.
func TestRetryAfterOfSockets(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.WithRetries(2, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Desktop("d").Dial(t.Context(), 80)
	if !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) || calls.Load() != 3 {
		t.Errorf("%v after %d dials", err, calls.Load())
	}
}
