// Package demo shows desktops at work, for people who see them for the first
// time. Run opens a terminal by clicking, types a line, and reads the result
// back by exec. Forks brings a desktop to a state once, forks it, and does
// something else in each child.
package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/deskfork/deskfork/pkg/api/client"
)

// Where the demonstration's line leaves its result, in the guest.
const resultPath = "/tmp/demo.txt"

// Say is told each step as it is taken. It is called from many goroutines.
type Say func(format string, args ...any)

// Result is what a demonstration brought.
type Result struct {
	Text    string // read back from the guest
	Opened  bool   // false: a terminal was open from an earlier demonstration
	Picture []byte // PNG of the screen at the end
}

// Run gives the demonstration and tells each step. It may be repeated.
func Run(ctx context.Context, d *client.Desktop, say Say) (Result, error) {
	var r Result
	// The result must not be an earlier one's.
	if _, err := d.Exec(ctx, "rm", "-f", resultPath); err != nil {
		return r, fmt.Errorf("remove the last result: %w", err)
	}
	node, err := d.Exec(ctx, "uname", "-n")
	if err != nil {
		return r, fmt.Errorf("ask for the guest's name: %w", err)
	}
	h := hand{d: d, say: say}
	if r.Opened, err = h.terminal(ctx); err != nil {
		return r, err
	}
	line := `echo "hello from $(uname -n)" | tee ` + resultPath
	say("typing: %s", line)
	if err := h.enter(ctx, line); err != nil {
		return r, err
	}
	want := "hello from " + strings.TrimSpace(string(node.Stdout))
	if r.Text, err = h.reads(ctx, resultPath, want); err != nil {
		return r, err
	}
	say("read back by exec: %s", r.Text)
	r.Picture, err = h.picture(ctx)
	return r, err
}
