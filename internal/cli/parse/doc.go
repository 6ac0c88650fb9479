// Package parse reads the small languages of the command line: D:path, sizes,
// displays, labels, ports and points. Its errors are *api.Error with the code
// invalid.
package parse

import "github.com/deskfork/deskfork/pkg/api"

func invalid(format string, args ...any) error { return api.Errorf(api.CodeInvalid, format, args...) }
