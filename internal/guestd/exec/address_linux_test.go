package exec_test

import (
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestFixedAddresses: where they are asked for, a program and what it starts
// begin without randomisation; threads of ours that start others do not.
func TestFixedAddresses(t *testing.T) {
	const noRandomize = "00040000"
	start := func(table *exec.Table) string {
		e, err := table.Start(guest.ExecSpec{Shell: `[ "$(cat /proc/self/personality)" = ` + noRandomize + ` ]`})
		if err != nil {
			t.Fatal(err)
		}
		st, err := e.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat("fixed", 1-st.ExitCode)
	}
	fixed, random := exec.NewTable(exec.Config{FixedAddresses: true}), exec.NewTable(exec.Config{})
	defer fixed.Close()
	defer random.Close()
	for range 20 {
		if a, b := start(fixed), start(random); a != "fixed" || b != "" {
			t.Fatalf("addresses %q and %q", a, b)
		}
	}
}
