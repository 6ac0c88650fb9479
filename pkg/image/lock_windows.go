package image

import (
	"errors"
	"fmt"
)

type flock struct{}

// lockPath is not there yet: no store lives on Windows.
func lockPath(path string, _ bool) (*flock, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

func (*flock) unlock() {}
