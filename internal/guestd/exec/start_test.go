package exec_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/pkg/guest"
)

// gate holds the first start up until it is opened.
type gate struct {
	passed  atomic.Bool
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) defaults() exec.Defaults {
	if !g.passed.Swap(true) {
		close(g.reached)
		<-g.open
	}
	return exec.Defaults{}
}

// TestStartsDoNotWaitForEachOther: one that hangs, as on a dead file system,
// holds up nothing but what concerns its own id.
func TestStartsDoNotWaitForEachOther(t *testing.T) {
	g := newGate()
	table := exec.NewTable(exec.Config{Defaults: g.defaults, MaxRunning: 2})
	defer table.Close()
	slow := guest.ExecSpec{ID: "slow", Argv: []string{"sleep", "1000"}}
	type outcome struct {
		e   *exec.Exec
		err error
	}
	outcomes := make(chan outcome, 3)
	start := func() {
		e, err := table.Start(slow)
		outcomes <- outcome{e, err}
	}
	go start()
	<-g.reached
	run(t, table, guest.ExecSpec{ID: "quick", Argv: []string{"true"}})
	if list := table.List(); len(list) != 1 || list[0].ID != "quick" {
		t.Errorf("while one hangs the list is %+v", list)
	}
	if _, err := table.Start(guest.ExecSpec{Argv: []string{"sleep", "1000"}}); err != nil {
		t.Error(err)
	}
	if _, err := table.Start(guest.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
		t.Errorf("one that hangs does not count: %v", err)
	}
	go start()
	go func() {
		e, err := table.Get("slow")
		outcomes <- outcome{e, err}
	}()
	close(g.open)
	first := <-outcomes
	for range 2 {
		if o := <-outcomes; o.err != nil || o.e != first.e {
			t.Errorf("the same id gives %p, %v; want %p, %v", o.e, o.err, first.e, first.err)
		}
	}
}

// TestCloseDuringStart: what is being started then ends too.
func TestCloseDuringStart(t *testing.T) {
	g := newGate()
	table := exec.NewTable(exec.Config{Defaults: g.defaults})
	started := make(chan error)
	go func() {
		_, err := table.Start(guest.ExecSpec{Argv: []string{"sleep", "1000"}})
		started <- err
	}()
	<-g.reached
	closed := make(chan struct{})
	go func() {
		table.Close()
		close(closed)
	}()
	for { // until Close has begun
		if _, err := table.Start(guest.ExecSpec{Argv: []string{"true"}}); errors.Is(err, &guest.Error{Code: guest.CodeGone}) {
			break
		}
	}
	close(g.open)
	if err := <-started; !errors.Is(err, &guest.Error{Code: guest.CodeGone}) {
		t.Errorf("a start within the close: %v", err)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the close hangs")
	}
}
