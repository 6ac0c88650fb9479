package gate_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := gate.NewLimiter(1, 1, time.Minute)
		leave, err := l.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() {
			_, err := l.Enter(context.Background())
			waiting <- err
		}()
		synctest.Wait()
		if _, err := l.Enter(t.Context()); !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) {
			t.Errorf("a full queue answers %v", err)
		}
		start := time.Now()
		if err := <-waiting; !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) || time.Since(start) != time.Minute {
			t.Errorf("a long wait answers %v after %s", err, time.Since(start))
		}
		time.AfterFunc(time.Second, leave)
		leave, err = l.Enter(t.Context())
		if err != nil {
			t.Errorf("a freed place answers %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that leaves gets %v", err)
		}
		leave()
	})
}

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		s := gate.NewShares(func() *gate.Limiter {
			made++
			return gate.NewLimiter(1, 1, time.Minute)
		})
		leave, err := s.Enter(t.Context(), "stuck")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enter(t.Context(), "stuck"); !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) {
			t.Errorf("a full share answers %v", err)
		}
		other, err := s.Enter(t.Context(), "other")
		if err != nil {
			t.Fatalf("another share answers %v", err)
		}
		other()
		leave()
		if leave, err = s.Enter(t.Context(), "stuck"); err != nil || made != 3 {
			t.Errorf("a share that was left answers %v; %d were made", err, made)
		}
		leave()
	})
}

func TestBody(t *testing.T) {
	tests := []struct {
		size, limit int64
		code        api.Code
	}{
		{10, 10, ""}, {11, 10, api.CodeTooLarge}, {1000, 10, api.CodeTooLarge}, {1000, 0, ""}, {0, 10, ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", int(tt.size))))
		b := gate.NewBody(httptest.NewRecorder(), r, time.Minute, time.Minute, tt.limit)
		got, err := io.ReadAll(b)
		var code api.Code
		if e, ok := errors.AsType[*api.Error](err); ok {
			code = e.Code
		}
		if code != tt.code || (code == "" && int64(len(got)) != tt.size) {
			t.Errorf("%d of %d: %d bytes, %v", tt.size, tt.limit, len(got), err)
		}
	}
}

// TestBodyEndsWithItsContext: a read that waits for a client which sends nothing
// more ends with the request's context, and says why.
func TestBodyEndsWithItsContext(t *testing.T) {
	why := api.Errorf(api.CodeUnauthorized, "the token was revoked")
	said := make(chan []error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		b := gate.NewBody(w, r.WithContext(ctx), time.Hour, 0, 0)
		defer b.Release()
		p := make([]byte, 16)
		n, first := b.Read(p)
		time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		_, second := b.Read(p)
		_, third := b.Read(p)
		if n == 0 {
			first = errors.New("nothing came")
		}
		said <- []error{first, second, third}
	}))
	defer srv.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	select {
	case errs := <-said:
		if errs[0] != nil || !errors.Is(errs[1], why) || !errors.Is(errs[2], why) {
			t.Errorf("reads ended with %v", errs)
		}
	case <-time.After(time.Minute):
		t.Error("a read waits for ever")
	}
}

func TestBearer(t *testing.T) {
	tests := []struct {
		name string
		set  func(http.Header)
		want string
	}{
		{"header", func(h http.Header) { h.Set("Authorization", "bearer  abc ") }, "abc"},
		{"other scheme", func(h http.Header) { h.Set("Authorization", "Basic abc") }, ""},
		{"subprotocol without an upgrade", func(h http.Header) { h.Set("Sec-WebSocket-Protocol", "deskfork-token.abc") }, ""},
		{"subprotocol", func(h http.Header) {
			h.Set("Connection", "Upgrade")
			h.Set("Upgrade", "websocket")
			h.Set("Sec-WebSocket-Protocol", "x, deskfork-token.abc")
		}, "abc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			tt.set(r.Header)
			if got := gate.Bearer(r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCheckHost(f *testing.F) {
	for _, s := range []string{"localhost", "[::1]:80", "evil.example", "127.0.0.1:1", "::1", "a]b[", ""} {
		f.Add(s)
	}
	n := gate.Names{Allowed: []string{"desks.example"}}
	f.Fuzz(func(t *testing.T, host string) {
		if n.CheckHost(host) == nil && strings.Contains(host, "evil") && !strings.Contains(strings.ToLower(host), "localhost") {
			t.Errorf("%q was let in", host)
		}
	})
}

// TestAnswerGivesUp: a client that stops reading frees what serves it.
func TestAnswerGivesUp(t *testing.T) {
	broke := make(chan error, 1)
	srv := httptest.NewServer(&gate.Access{
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 64<<20)) // more than any socket holds
			broke <- err
		}),
		Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(func() map[string]int { return nil }),
		Path: func(r *http.Request) string { return r.URL.Path }, Patience: 50 * time.Millisecond,
	})
	defer srv.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-broke:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the answer broke with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the answer waits for ever")
	}
}

// TestAnswerIsPatient: each part has a deadline of its own, so that a client
// which reads slowly gets all.
func TestAnswerIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{ResponseRecorder: httptest.NewRecorder()}
		a := &gate.Access{
			Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n, err := w.Write(make([]byte, 4<<20)); n != 4<<20 || err != nil {
					t.Errorf("wrote %d bytes, %v", n, err)
				}
			}),
			Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(func() map[string]int { return nil }),
			Path: func(r *http.Request) string { return r.URL.Path }, Patience: time.Minute,
		}
		start := time.Now()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Body.Len() != 4<<20 || time.Since(start) < 2*time.Minute {
			t.Errorf("%d bytes came within %s", w.Body.Len(), time.Since(start))
		}
	})
}

// slow takes 100 ms for a KiB, and keeps the deadline.
type slow struct {
	*httptest.ResponseRecorder

	deadline time.Time
}

func (s *slow) SetWriteDeadline(d time.Time) error {
	s.deadline = d
	return nil
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(time.Duration(len(p)>>10) * 100 * time.Millisecond)
	if time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(p)
}

// TestRate: a client may try a burst, and once more after each pause; others are
// not slowed down by it, unless they are of its network.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := gate.NewRate(3, time.Second, time.Now)
		one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		allowed := func(a netip.Addr) bool { return r.Take(a) == nil }
		for i, want := range []bool{true, true, true, false} {
			if allowed(one) != want {
				t.Errorf("attempt %d: want %t", i, want)
			}
		}
		if !allowed(other) {
			t.Error("another client is refused")
		}
		<-time.After(time.Second)
		if !allowed(one) || allowed(one) {
			t.Error("after a pause there is one more")
		}
		<-time.After(time.Hour)
		for range 3 {
			if !allowed(netip.MustParseAddr("2001:db8::1")) {
				t.Error("a fresh client is refused")
			}
		}
		if allowed(netip.MustParseAddr("2001:db8::2")) {
			t.Error("a network has as many bursts as addresses")
		}
	})
}
