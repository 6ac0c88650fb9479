package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

func TestDeadlineKillsTheTree(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	// Sleepers that no other test has, of this process or beside it.
	one := 10 * (1000 + os.Getpid())
	spec := shell(fmt.Sprintf(`sleep %d & setsid sleep %d & (setsid setsid sleep %d &) ; echo started; wait`, one, one+1, one+2))
	spec.Timeout = 700 * time.Millisecond
	res, err := c.Exec.Run(soon(t), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Status.TimedOut || res.Status.Signal != "KILL" || res.Status.ExitCode != 137 {
		t.Errorf("status %+v", res.Status)
	}
	// Every sleeper held the output; when all are gone it is at its end by
	// itself, and none is left by its command line.
	left, err := c.Exec.Run(soon(t), shell(fmt.Sprintf(`for n in %d %d %d; do pgrep -x -f "sleep $n"; done`, one, one+1, one+2)), nil)
	if err != nil || len(left.Stdout) != 0 {
		t.Errorf("processes left after the deadline: %q, %v", left.Stdout, err)
	}
}

func TestBackgroundChildKeepsOutput(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	// The child lives longer than the call is waited for.
	res, err := c.Exec.Run(soon(t), shell("sleep 300 & echo $!; exit 3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status.ExitCode != 3 {
		t.Errorf("status %+v", res.Status)
	}
	endBackground(t, c, res.Stdout)
}

// TestBackgroundChildOutlivesItsExec: what a program that has ended left behind
// lives on, whatever becomes of the exec.
func TestBackgroundChildOutlivesItsExec(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	spec := shell("sleep 301 </dev/null >/dev/null 2>&1 & echo $!")
	spec.KillOnDetach = true
	res, err := c.Exec.Run(soon(t), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec.Remove(soon(t), res.Status.ID); err != nil {
		t.Fatal(err)
	}
	endBackground(t, c, res.Stdout)
}

// endBackground ends a process by the id that an exec has printed, which fails
// when it is gone already.
func endBackground(t *testing.T, c *client.Client, pid []byte) {
	t.Helper()
	if strings.TrimSpace(string(pid)) == "" {
		t.Fatal("no process id was printed")
	}
	alive, err := c.Exec.Run(soon(t), shell("kill "+strings.TrimSpace(string(pid))), nil)
	if err != nil || alive.Status.ExitCode != 0 {
		t.Errorf("the child did not live on: %+v, %v", alive.Status, err)
	}
}

// TestNothingIsLostBeforeTheFirstClient: a program that makes much more output
// than the ring keeps waits for the first client, who sees all of it.
func TestNothingIsLostBeforeTheFirstClient(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	spec := shell("seq 1 500000")
	spec.Ring = 64 << 10
	st, err := c.Exec.Start(soon(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	for full := false; !full; {
		now, err := c.Exec.Status(soon(t), st.ID)
		if err != nil || !now.Running {
			t.Fatalf("status %+v, %v", now, err)
		}
		full = now.Out >= int64(spec.Ring)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	sum := 0
	for lines := bufio.NewScanner(a.Stdout); lines.Scan(); sum++ {
		if want := strconv.Itoa(sum + 1); lines.Text() != want {
			t.Fatalf("line %q, want %s", lines.Text(), want)
		}
	}
	if sum != 500000 {
		t.Errorf("%d lines", sum)
	}
}

func TestCancelKillsRun(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	ctx, cancel := context.WithCancel(soon(t))
	started := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		_, err := c.Exec.Run(ctx, guest.ExecSpec{ID: "long", Argv: []string{"sleep", "1000"}}, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled run: %v", err)
		}
	})
	work.Go(func() {
		defer close(started)
		for {
			if st, err := c.Exec.Status(soon(t), "long"); err == nil && st.Running {
				return
			}
		}
	})
	<-started
	cancel()
	work.Wait()
	st, err := c.Exec.Wait(soon(t), "long")
	if err != nil || st.Signal != "KILL" {
		t.Errorf("status %+v, %v", st, err)
	}
}

func TestKillOnDetach(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{Argv: []string{"sleep", "1000"}, KillOnDetach: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	detach(t, a)
	if end, err := c.Exec.Wait(soon(t), st.ID); err != nil || end.Signal != "KILL" {
		t.Errorf("end %+v, %v", end, err)
	}
}

// detach closes an attachment, whose link may be lost.
func detach(t *testing.T, a *client.Attachment) {
	t.Helper()
	if err := a.Close(); err != nil && !errors.Is(err, client.ErrLinkLost) {
		t.Error(err)
	}
}
