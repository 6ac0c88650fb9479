//go:build !robotgo

package input

import "github.com/deskfork/deskfork/internal/guesthelper/display"

// newPointer without the robotgo tag is XTEST for everything: pure Go.
func newPointer(d *display.Display) pointer { return xtestPointer{d} }
