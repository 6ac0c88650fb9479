package qmp

import (
	"errors"
	"fmt"
)

// Error classes of QAPI that callers branch on.
const (
	ClassGeneric         = "GenericError"
	ClassCommandNotFound = "CommandNotFound"
	ClassDeviceNotFound  = "DeviceNotFound"
	ClassDeviceNotActive = "DeviceNotActive"
)

// ErrClosed means that the connection to QEMU has ended.
var ErrClosed = errors.New("qmp connection is closed")

// Error is QEMU's refusal of a command.
type Error struct {
	Command string
	Class   string
	Desc    string // QEMU's words
}

func (e *Error) Error() string {
	return fmt.Sprintf("qmp %s: %s: %s", e.Command, e.Class, e.Desc)
}

// IsClass reports whether err is QEMU's refusal with this class.
func IsClass(err error, class string) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == class
}
