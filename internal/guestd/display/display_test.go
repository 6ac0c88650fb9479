package display_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// helper is one fake helper: what it does with its wire.
type helper func(ctx context.Context, conn *guest.HelperConn)

// spawner starts the helpers of a list in turn, the last one again and again.
func spawner(starts *atomic.Int32, helpers ...helper) func(context.Context) (*display.Process, error) {
	return func(ctx context.Context) (*display.Process, error) {
		n := int(starts.Add(1)) - 1
		toHelper, in := io.Pipe()
		out, fromHelper := io.Pipe()
		ctx, cancel := context.WithCancel(ctx)
		kill := func() {
			cancel()
			_ = errors.Join(toHelper.Close(), fromHelper.Close()) // never fails
		}
		var running sync.WaitGroup
		running.Go(func() {
			helpers[min(n, len(helpers)-1)](ctx, guest.NewHelperConn(toHelper, fromHelper))
			kill()
		})
		return &display.Process{Out: out, In: in, Kill: kill, Wait: func() error { running.Wait(); return nil }}, nil
	}
}

func greet(conn *guest.HelperConn, protocol int) bool {
	hello, err := json.Marshal(guest.HelperHello{Protocol: protocol, PID: 1})
	return err == nil && conn.Write(guest.HelperMessage{Result: hello}) == nil
}

func good(_ context.Context, conn *guest.HelperConn) {
	if !greet(conn, guest.HelperProtocol) {
		return
	}
	for {
		m, err := conn.Read()
		if err != nil || conn.Write(guest.HelperMessage{ID: m.ID, Result: m.Params, Binary: m.Binary}) != nil {
			return
		}
	}
}

func deaf(ctx context.Context, conn *guest.HelperConn) {
	if greet(conn, guest.HelperProtocol) {
		<-ctx.Done()
	}
}

func start(t *testing.T, cfg display.Config) *display.Supervisor {
	t.Helper()
	cfg.Poll, cfg.Backoff, cfg.MaxBackoff = time.Millisecond, time.Millisecond, 5*time.Millisecond
	s := display.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// answered asks until a helper answers.
func answered(t *testing.T, s *display.Supervisor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		res, err := s.Do(ctx, "echo", []byte(`{"a":1}`), []byte("bytes"))
		if err == nil {
			if string(res.Result) != `{"a":1}` || string(res.Binary) != "bytes" {
				t.Errorf("answer %s, %q", res.Result, res.Binary)
			}
			return
		}
		if !errors.Is(err, &guest.Error{Code: guest.CodeNoDisplay}) {
			t.Fatal(err)
		}
	}
}

func TestBadHelpersAreReplaced(t *testing.T) {
	for name, bad := range map[string]helper{
		"dies at once":   func(context.Context, *guest.HelperConn) {},
		"other protocol": func(ctx context.Context, c *guest.HelperConn) { greet(c, 99); <-ctx.Done() },
		"no greeting":    func(_ context.Context, c *guest.HelperConn) { _ = c.Write(guest.HelperMessage{ID: 5}) },
		"says nothing":   func(ctx context.Context, _ *guest.HelperConn) { <-ctx.Done() },
		"dies later":     func(_ context.Context, c *guest.HelperConn) { greet(c, guest.HelperProtocol) },
	} {
		t.Run(name, func(t *testing.T) {
			var starts atomic.Int32
			s := start(t, display.Config{Spawn: spawner(&starts, bad, bad, good), Greeting: 50 * time.Millisecond})
			answered(t, s)
			if starts.Load() < 3 {
				t.Errorf("%d starts", starts.Load())
			}
		})
	}
}

func TestSilentHelperIsReplaced(t *testing.T) {
	var starts atomic.Int32
	s := start(t, display.Config{Spawn: spawner(&starts, deaf, good), Silence: time.Nanosecond})
	for !s.Up() {
		<-time.After(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Do(ctx, "echo", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deaf helper: %v", err)
	}
	answered(t, s)
}

func TestBacklogIsBounded(t *testing.T) {
	var starts atomic.Int32
	s := start(t, display.Config{Spawn: spawner(&starts, deaf)})
	for !s.Up() {
		<-time.After(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asking sync.WaitGroup
	var busy atomic.Int32
	for range 400 {
		asking.Go(func() {
			if _, err := s.Do(ctx, "echo", nil, nil); errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
				busy.Add(1)
			}
			if busy.Load() >= 100 {
				cancel()
			}
		})
	}
	asking.Wait()
	if busy.Load() < 100 {
		t.Errorf("%d of 400 requests were turned away", busy.Load())
	}
}

func TestWaitsForTheServersSocket(t *testing.T) {
	var starts atomic.Int32
	socket := filepath.Join(t.TempDir(), "X0")
	s := start(t, display.Config{Spawn: spawner(&starts, good), Socket: socket})
	<-time.After(20 * time.Millisecond)
	if starts.Load() != 0 {
		t.Error("a helper was started without a display server")
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	answered(t, s)
}

// TestHelperSaysMoreThanIsUnderstood: what nobody asked for, and nobody knows, is
// passed over.
func TestHelperSaysMoreThanIsUnderstood(t *testing.T) {
	var starts atomic.Int32
	chatty := func(ctx context.Context, conn *guest.HelperConn) {
		if !greet(conn, guest.HelperProtocol) {
			return
		}
		for _, m := range []guest.HelperMessage{{}, {Op: "desktop.dreaming", Result: []byte(`{}`)}, {Op: guest.OpBrowsing, Result: []byte(`"yes"`)}, {Op: guest.OpBrowsing}} {
			if conn.Write(m) != nil {
				return
			}
		}
		good(ctx, conn)
	}
	s := start(t, display.Config{Spawn: spawner(&starts, chatty)})
	answered(t, s)
	if starts.Load() != 1 {
		t.Errorf("%d starts", starts.Load())
	}
}
