//go:build !linux

package system

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Host is the real kernel; here it can tell its name only.
type Host struct{}

// Clock implements Kernel.
func (Host) Clock() time.Time { return time.Now() }

// SetClock implements Kernel.
func (Host) SetClock(time.Time) error { return errors.ErrUnsupported }

// Reseed implements Kernel.
func (Host) Reseed([]byte) (string, error) { return "", errors.ErrUnsupported }

// SetHostname implements Kernel.
func (Host) SetHostname(string) error { return errors.ErrUnsupported }

// Mount implements Kernel.
func (Host) Mount(Volume) (string, error) { return "", errors.ErrUnsupported }

// Power implements Kernel.
func (Host) Power(string) error { return errors.ErrUnsupported }

// Info implements Kernel.
func (Host) Info() (guest.Info, error) {
	name, err := os.Hostname()
	return guest.Info{Hostname: name, Now: time.Now()}, err
}

// BootTimes is not known here.
func BootTimes(context.Context) (string, error) { return "", errors.ErrUnsupported }

var _ Kernel = Host{}

// LetGo releases keys that nobody holds; here it cannot.
func LetGo() error { return nil }
