package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/pkg/api"
)

// exitError ends with a status and says nothing: all was said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exit reports an error and turns it into an exit status.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	p := a.problem(err)
	if a.JSON {
		raw, _ := json.Marshal(p) // an api.Error always has a form in JSON
		fmt.Fprintln(a.Err, string(raw))
		return p.Code.ExitStatus()
	}
	fmt.Fprintln(a.Err, "vmhost:", err)
	for _, f := range p.Errors {
		fmt.Fprintf(a.Err, "  %s: %s\n", f.Location, f.Message)
	}
	if p.Log != "" {
		fmt.Fprintf(a.Err, "  | %s\n", strings.ReplaceAll(strings.TrimRight(p.Log, "\n"), "\n", "\n  | "))
	}
	return p.Code.ExitStatus()
}

// problem gives every error a code.
func (a *app) problem(err error) *api.Error {
	var p *api.Error
	switch {
	case errors.As(err, &p):
		return p
	case !a.parsed:
		return api.Errorf(api.CodeInvalid, "%v", err)
	case errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeCancelled, "%v", err)
	default:
		return api.Errorf(api.CodeInternal, "%v", err)
	}
}

func invalid(format string, args ...any) error { return api.Errorf(api.CodeInvalid, format, args...) }

// args checks the number of arguments; most < 0: no limit.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) >= least && (most < 0 || len(given) <= most) {
			return nil
		}
		return invalid("usage: %s\nsee: %s --help", cmd.UseLine(), cmd.CommandPath())
	}
}
