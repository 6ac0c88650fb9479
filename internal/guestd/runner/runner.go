// Package runner is the process that guestd starts in place of a program whose secrets
// nothing else may keep: its own program again, as the program's user. It draws a key,
// takes what the host has encrypted for it, and becomes the program. What it knew goes to
// the kernel at that moment, which clears it. guestd itself never has more than the
// encrypted bytes.
package runner

import (
	"fmt"
	"os"
)

// Arg is the first argument of a runner; those of the program follow.
const Arg = "run-sealed"

// Descriptors of a runner besides the standard streams: to read the sealed secrets from,
// to their end, and to write the public key to.
const (
	SealedFD = 3
	KeyFD    = 4
)

// Failed is the exit status of a runner that could not become the program.
const Failed = 127

// TagVariable marks every process of an exec, also one that has left its session and
// its parents.
const TagVariable = "DESKFORK_EXEC"

// Main makes this process a runner if its arguments say so, and returns otherwise.
func Main(args, environ []string) {
	if len(args) < 3 || args[1] != Arg {
		return
	}
	err := become(args[2:], environ)
	_, _ = fmt.Fprintln(os.Stderr, "guestd:", err) // there is nobody else to tell
	os.Exit(Failed)
}
