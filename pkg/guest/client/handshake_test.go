package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

func TestHandshake(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	other := g.Client(t)
	if _, err := other.Hello(soon(t)); err != nil {
		t.Fatal(err)
	}
	h := guest.Handshake{
		Entropy: bytes.Repeat([]byte{7}, 32), Generation: "gen-2", Token: "second",
		Workspace: "/dev/vdb", Env: map[string]string{"DESK": "one"},
	}
	uuids := map[string]bool{}
	for _, renewed := range []bool{true, false} { // it may be repeated
		done, err := c.Handshake(soon(t), h)
		if err != nil {
			t.Fatal(err)
		}
		if done.Generation != "gen-2" || done.Renewed != renewed || done.Workspace != "/dev/vdb" || done.UUID == "" || uuids[done.UUID] {
			t.Errorf("answer %+v", done)
		}
		uuids[done.UUID] = true
	}
	state := g.Kernel.State()
	if state.Set != 0 || len(state.Entropy) != 2 || len(state.Mounts) != 1 {
		t.Errorf("kernel %+v", state)
	}
	if info, err := c.System.Info(soon(t)); err != nil || info.Generation != "gen-2" {
		t.Errorf("info %+v, %v", info, err)
	}
	res, err := c.Exec.Run(soon(t), shell("echo $DESK"), nil)
	if err != nil || string(res.Stdout) != "one\n" {
		t.Errorf("default environment: %q, %v", res.Stdout, err)
	}
	g.Cut()
	relinked(t, c) // with the new token
	refused(t, other)
	bare, err := c.Handshake(soon(t), guest.Handshake{})
	if err != nil || bare.Workspace != "/dev/vdb" || bare.Generation != "gen-2" || bare.Renewed {
		t.Errorf("asked for nothing: %+v, %v", bare, err)
	}
}

func TestHandshakeNamesItsStep(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	for name, tt := range map[string]struct {
		h    guest.Handshake
		want string
		code guest.Code
	}{
		"clock":      {guest.Handshake{Now: time.Unix(1, 0)}, "set clock", guest.CodeInvalid},
		"entropy":    {guest.Handshake{Entropy: []byte("short")}, "reseed", guest.CodeInvalid},
		"generation": {guest.Handshake{Generation: "two\nlines"}, "generation", guest.CodeInvalid},
		"workspace":  {guest.Handshake{Workspace: "vdb"}, "mount workspace", guest.CodeInvalid},
		"user":       {guest.Handshake{User: "no-such-user"}, "no-such-user", guest.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Handshake(soon(t), tt.h)
			if !errors.Is(err, code(tt.code)) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	g.Kernel.Fail(errors.New("no such clock"))
	if err := c.System.SetClock(soon(t), time.Now()); !errors.Is(err, code(guest.CodeInternal)) {
		t.Errorf("a kernel that refuses: %v", err)
	}
}

// TestHandshakeFailsAndIsRepeated: after a failure at a late step the host goes
// on with either token, and the same handshake then succeeds.
func TestHandshakeFailsAndIsRepeated(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	h := guest.Handshake{Generation: "g", Token: "new", Workspace: "not/a/path"}
	if _, err := c.Handshake(soon(t), h); !errors.Is(err, code(guest.CodeInvalid)) {
		t.Fatal(err)
	}
	g.Cut()
	relinked(t, c)
	h.Workspace = "/dev/vdb"
	if done, err := c.Handshake(soon(t), h); err != nil || done.Workspace != h.Workspace || done.Generation != "g" {
		t.Fatalf("again: %+v, %v", done, err)
	}
	g.Cut()
	relinked(t, c)
}

// TestNewGenerationCutsTheOld: links of the machine that was sealed are dropped
// even when their other end takes nothing any more; the execs behind them go on
// and are attached again.
func TestNewGenerationCutsTheOld(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	var frozen atomic.Bool
	old := guesttest.Run(t, client.Config{Token: guesttest.Token, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := g.Dial(ctx)
		return &freezing{Conn: conn, frozen: &frozen}, err
	}})
	const size = 8 << 20
	st, err := old.Exec.Start(soon(t), shell("head -c 8388608 /dev/zero; echo end"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec.Attach(soon(t), st.ID, client.AttachOptions{}); err != nil {
		t.Fatal(err)
	}
	frozen.Store(true)

	events := make(chan string, 10)
	c := guesttest.Run(t, client.Config{Token: guesttest.Token, Dial: g.Dial, OnEvent: func(name string, params json.RawMessage) {
		if name == guest.EventGeneration {
			events <- string(params)
		}
	}})
	done, err := c.Handshake(soon(t), guest.Handshake{Generation: "second", Token: "second"})
	if err != nil || !done.Renewed {
		t.Fatalf("%+v, %v", done, err)
	}
	now, err := c.Exec.Status(soon(t), st.ID)
	if err != nil || now.Attached != 0 {
		t.Errorf("still attached at the answer: %+v, %v", now, err)
	}
	if end, err := c.Exec.Wait(soon(t), st.ID); err != nil || end.Out != size+4 || end.ExitCode != 0 {
		t.Errorf("end %+v, %v", end, err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{OutFrom: size})
	if err != nil {
		t.Fatal(err)
	}
	var tail bytes.Buffer
	if _, err := tail.ReadFrom(a.Stdout); err != nil || tail.String() != "end\n" {
		t.Errorf("tail %q, %v", tail.String(), err)
	}
	if got := <-events; got != `{"generation":"second"}` {
		t.Errorf("event %s", got)
	}
	frozen.Store(false)
	refused(t, old)
}

// refused waits until the guest has refused a client's token.
func refused(t *testing.T, c *client.Client) {
	t.Helper()
	for limit := soon(t); ; {
		ctx, cancel := context.WithTimeout(limit, 100*time.Millisecond)
		_, err := c.Exec.List(ctx)
		cancel()
		if errors.Is(err, mux.ErrUnauthorized) {
			return
		}
		if err == nil || limit.Err() != nil {
			t.Fatalf("with the old token: %v", err)
		}
	}
}

// late delays what is written, once, by what delay holds.
type late struct {
	net.Conn

	delay *atomic.Int64 // ns
}

func (l *late) Write(p []byte) (int, error) {
	<-time.After(time.Duration(l.delay.Swap(0)))
	return l.Conn.Write(p)
}

// TestHandshakeSetsTheClock: however long the handshake was under way, the clock
// is right, and how right is told. It is set no oftener than it must be where the
// machine lets the answers come at once; a try in which it does not counts for the
// rest alone.
func TestHandshakeSetsTheClock(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead, delay time.Duration
		most         int // times that the clock may be set
	}{
		"of another year":     {ahead: 4 * 365 * 24 * time.Hour, most: 3},
		"long under way":      {ahead: -time.Hour, delay: 300 * time.Millisecond, most: 4},
		"right already":       {most: 1},
		"a little off":        {ahead: 400 * time.Millisecond, most: 3},
		"right, and it waits": {delay: 300 * time.Millisecond, most: 3},
	} {
		t.Run(name, func(t *testing.T) {
			for limit, try := soon(t), 0; limit.Err() == nil; try++ {
				done, set := handshakeOff(t, tt.ahead, tt.delay)
				if done.ClockError() <= 20*time.Millisecond && set <= tt.most {
					return
				}
				t.Logf("try %d: clock %s ± %s, set %d times", try, done.Skew, done.Margin, set)
			}
			t.Error("the clock was never good enough")
		})
	}
}

// handshakeOff shakes hands with a guest whose clock is off and whose answers are
// delayed, and tells how often its clock was set.
func handshakeOff(t *testing.T, ahead, wait time.Duration) (guest.Handshaken, int) {
	t.Helper()
	g := guesttest.Start(t, guesttest.Config{})
	var delay atomic.Int64
	c := guesttest.Run(t, client.Config{Token: guesttest.Token, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := g.Dial(ctx)
		return &late{Conn: conn, delay: &delay}, err
	}})
	if _, err := c.Hello(soon(t)); err != nil {
		t.Fatal(err)
	}
	delay.Store(int64(wait))
	began := time.Now()
	base := began.Add(ahead)
	done, err := c.Handshake(soon(t), guest.Handshake{Now: base})
	if err != nil {
		t.Fatal(err)
	}
	// The fake's clock runs with ours: the truth can be read, as well as the time is
	// known at which it is.
	before := time.Since(began)
	state := g.Kernel.State()
	read := time.Since(began) - before
	skew := state.Clock.Sub(base.Add(before))
	if off := (skew - done.Skew).Abs(); off > done.Margin+read+time.Millisecond {
		t.Errorf("clock is ahead by %s, said to be by %s ± %s", skew, done.Skew, done.Margin)
	}
	return done, state.Set
}

// TestHandshakeWithAnOlderGuest: one that answers nothing is taken as it is.
func TestHandshakeWithAnOlderGuest(t *testing.T) {
	routes := mux.Router{
		guest.OpHello: func(context.Context, *mux.Call) (any, error) {
			return guest.Hello{Protocol: guest.Protocol}, nil
		},
		guest.OpHandshake: func(context.Context, *mux.Call) (any, error) { return nil, nil },
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := mux.Upgrade(w, r, mux.Timing{})
		if err != nil {
			return
		}
		_ = mux.New(mux.Config{Conn: conn, Handler: routes}).Run(t.Context())
	}))
	t.Cleanup(srv.Close)
	c := guesttest.Run(t, client.Config{Token: "t", Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}})
	done, err := c.Handshake(soon(t), guest.Handshake{Now: time.Now(), Generation: "g"})
	if err != nil || done != (guest.Handshaken{}) {
		t.Errorf("%+v, %v", done, err)
	}
}
