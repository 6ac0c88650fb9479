//go:build !linux

package account

import (
	"fmt"
	"os/user"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Do runs fn as the user of this process; acting as another is not supported
// here yet.
func (u User) Do(fn func() error) error {
	if self, err := user.Current(); err != nil || self.Username != u.Name {
		return &guest.Error{Code: guest.CodeUnsupported, Message: fmt.Sprintf("acting as %s is not supported on this system yet", u.Name)}
	}
	return fn()
}

func shellOf(string) string { return "/bin/sh" }
