package command_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestErrorsOfGuestsAreText: what a guest has written into an error's detail, its log
// or a field changes nothing of the terminal, in any form.
func TestErrorsOfGuestsAreText(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b]0;title\x07\x1b[2J\r\u009b31mb"
	e := api.Errorf(api.CodeGuestFailed, "output %s is a symlink", evil)
	e.Log = "one\n\t" + evil + "\ntwo"
	e.Errors = []api.FieldError{{Location: evil, Message: evil}}
	for _, asJSON := range []bool{false, true} {
		for _, err := range []error{e, errors.New(evil)} {
			var said bytes.Buffer
			a := &command.App{Config: command.Config{Err: &said}}
			a.JSON, a.Parsed = asJSON, true
			if status := a.Report(evil, err); status == 0 {
				t.Error("no exit status")
			}
			got := said.String()
			if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) }) {
				t.Errorf("JSON %v: said %q", asJSON, got)
			}
			if errors.Is(err, e) && !asJSON && !strings.Contains(got, "\n  | one\n  | \ta·]0;title··[2J··31mb\n  | two\n") {
				t.Errorf("the log reads %q", got)
			}
		}
	}
}
