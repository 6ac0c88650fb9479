package client_test

import (
	"bytes"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// TestGraceLosesNothing: a program that says much more than its ring holds is left
// by its client again and again; each time another goes on somewhat below what the
// one before has read, and all of it comes, once and in order.
func TestGraceLosesNothing(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	const numbers, lag = 400000, 48 << 10
	spec := shell("seq 1 " + strconv.Itoa(numbers))
	spec.Ring, spec.KillOnDetach, spec.DetachGrace = 64<<10, true, time.Minute
	st, err := c.Exec.Start(soon(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for n := 1; ; n++ {
		from := max(0, int64(all.Len())-lag)
		a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{OutFrom: from, Lag: lag})
		if err != nil {
			t.Fatal(err)
		}
		if a.OutFrom != from {
			t.Fatalf("attached at %d, wanted %d of %d", a.OutFrom, from, all.Len())
		}
		all.Truncate(int(from))
		_, err = io.CopyN(&all, a.Stdout, int64(n)*300<<10)
		detach(t, a)
		if err == io.EOF { //nolint:errorlint // what CopyN gives
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []byte
	for i := 1; i <= numbers; i++ {
		want = append(strconv.AppendInt(want, int64(i), 10), '\n')
	}
	if !bytes.Equal(all.Bytes(), want) {
		t.Errorf("%d bytes came, want %d", all.Len(), len(want))
	}
	if end, err := c.Exec.Wait(soon(t), st.ID); err != nil || end.ExitCode != 0 || end.Signal != "" {
		t.Errorf("end %+v, %v", end, err)
	}
}

// TestGraceGoesOn: a client that comes again and has read all there is lets a program
// go on that has filled its ring meanwhile.
func TestGraceGoesOn(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	spec := shell("head -c 1000000 /dev/zero")
	spec.Ring, spec.KillOnDetach, spec.DetachGrace = 64<<10, true, time.Minute
	st, err := c.Exec.Start(soon(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	for st.Out < 64<<10 {
		if st, err = c.Exec.Status(soon(t), st.ID); err != nil {
			t.Fatal(err)
		}
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{OutFrom: st.Out})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	if n, err := io.Copy(io.Discard, a.Stdout); err != nil || n != 1000000-st.Out {
		t.Errorf("%d bytes came after %d, %v", n, st.Out, err)
	}
}

func TestGraceEnds(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	start := func(grace time.Duration) guest.ExecStatus {
		st, err := c.Exec.Start(soon(t), guest.ExecSpec{Argv: []string{"sleep", "1000"}, KillOnDetach: true, DetachGrace: grace})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	killed := func(id guest.ExecID) {
		t.Helper()
		if end, err := c.Exec.Wait(soon(t), id); err != nil || end.Signal != "KILL" {
			t.Errorf("end %+v, %v", end, err)
		}
	}
	killed(start(time.Millisecond).ID) // nobody came

	left := start(500 * time.Millisecond)
	a, err := c.Exec.Attach(soon(t), left.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	detach(t, a)
	killed(left.ID)

	if _, err := c.Exec.Start(soon(t), guest.ExecSpec{Argv: []string{"true"}, DetachGrace: time.Second}); err == nil {
		t.Error("a grace without an end was taken")
	}
}
