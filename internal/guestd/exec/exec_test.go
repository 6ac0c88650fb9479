package exec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/pkg/guest"
)

func run(t *testing.T, table *exec.Table, spec guest.ExecSpec) guest.ExecStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := table.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	st, err := e.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestEndedExecsAreForgotten(t *testing.T) {
	t.Run("by number", func(t *testing.T) {
		table := exec.NewTable(exec.Config{KeepEnded: 3})
		defer table.Close()
		for _, id := range []guest.ExecID{"a", "b", "c", "d", "e"} {
			run(t, table, guest.ExecSpec{ID: id, Argv: []string{"true"}})
		}
		if list := table.List(); len(list) != 3 || list[0].ID != "c" {
			t.Errorf("kept %+v", list)
		}
	})
	t.Run("by bytes", func(t *testing.T) {
		table := exec.NewTable(exec.Config{KeepBytes: 5000})
		defer table.Close()
		for range 4 {
			run(t, table, guest.ExecSpec{Shell: "head -c 2000 /dev/zero"})
		}
		if list := table.List(); len(list) != 2 {
			t.Errorf("kept %d", len(list))
		}
	})
	t.Run("by age", func(t *testing.T) {
		table := exec.NewTable(exec.Config{KeepFor: time.Nanosecond})
		defer table.Close()
		run(t, table, guest.ExecSpec{Argv: []string{"true"}})
		if list := table.List(); len(list) != 0 {
			t.Errorf("kept %+v", list)
		}
	})
}

func TestRunningExecsAreBounded(t *testing.T) {
	table := exec.NewTable(exec.Config{MaxRunning: 2})
	defer table.Close()
	for range 2 {
		if _, err := table.Start(guest.ExecSpec{Argv: []string{"sleep", "1000"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := table.Start(guest.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
		t.Errorf("one too many: %v", err)
	}
}

func TestCloseEndsAll(t *testing.T) {
	table := exec.NewTable(exec.Config{})
	e, err := table.Start(guest.ExecSpec{Shell: "sleep 1000 & sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	table.Close()
	if st := e.Status(); st.Running || st.Signal != "KILL" {
		t.Errorf("after the close: %+v", st)
	}
	if _, err := table.Start(guest.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, &guest.Error{Code: guest.CodeGone}) {
		t.Errorf("start after the close: %v", err)
	}
}

func TestListCutsCommandLines(t *testing.T) {
	table := exec.NewTable(exec.Config{})
	defer table.Close()
	long := strings.Repeat("ü", 10000)
	full := run(t, table, guest.ExecSpec{Argv: []string{"true", long}})
	if full.Argv[1] != long {
		t.Error("the status cuts the command line")
	}
	if got := table.List()[0].Argv; len(got) != 2 || len(got[1]) > 600 {
		t.Errorf("the list holds %d bytes", len(got[1]))
	}
}
