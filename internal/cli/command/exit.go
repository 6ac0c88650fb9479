package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/pkg/api"
)

// ExitError ends with a status and says nothing: all was said.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Exit reports an error and turns it into an exit status.
func (a *App) Exit(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[ExitError](err); ok {
		return int(code)
	}
	return a.Report("", err)
}

// Report says what failed, of what when several things were tried, and answers
// the exit status that goes with it.
func (a *App) Report(of string, err error) int {
	p := a.problem(err)
	text := err.Error()
	if of != "" {
		text = of + ": " + text
	}
	if a.JSON {
		said := *p
		if of != "" {
			said.Detail = of + ": " + said.Detail
		}
		raw, _ := json.Marshal(said) // an api.Error always has a form in JSON
		a.Say("%s", raw)
		return p.Code.ExitStatus()
	}
	a.Say("vmhost: %s", text)
	for _, f := range p.Errors {
		a.Say("  %s: %s", f.Location, f.Message)
	}
	if p.Log != "" {
		a.Say("  | %s", strings.ReplaceAll(strings.TrimRight(p.Log, "\n"), "\n", "\n  | "))
	}
	return p.Code.ExitStatus()
}

// problem gives every error a code.
func (a *App) problem(err error) *api.Error {
	var p *api.Error
	switch {
	case errors.As(err, &p):
		return p
	case !a.Parsed:
		return api.Errorf(api.CodeInvalid, "%v", err)
	case errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeCancelled, "%v", err)
	default:
		return api.Errorf(api.CodeInternal, "%v", err)
	}
}

// Invalid is an error of how a command is used.
func Invalid(format string, args ...any) error { return api.Errorf(api.CodeInvalid, format, args...) }

// Args checks the number of arguments; most < 0: no limit.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) >= least && (most < 0 || len(given) <= most) {
			return nil
		}
		return Invalid("usage: %s\nsee: %s --help", cmd.UseLine(), cmd.CommandPath())
	}
}
