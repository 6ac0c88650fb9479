//go:build !linux

package runner

import "errors"

func become([]string, []string) error { return errors.ErrUnsupported }
