//go:build !linux

package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Images of Debian are built on Linux only; elsewhere every build fails with
// errors.ErrUnsupported.

type sandbox struct {
	log io.Writer
	env []string
}

func (s *sandbox) run(_ context.Context, name string, _ []string, _ ...string) error {
	return fmt.Errorf("run %s: %w", name, errors.ErrUnsupported)
}

// RemoveAll removes path and what is in it.
func RemoveAll(path string) error { return os.RemoveAll(path) }

func readCapabilities([]node, string) error { return errors.ErrUnsupported }

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

type scriptError struct{ script, output string }

func (e *scriptError) Error() string { return e.script + ": " + e.output }
