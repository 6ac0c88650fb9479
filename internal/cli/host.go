package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/demo"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// report is what doctor prints as JSON.
type report struct {
	OK     bool        `json:"ok"`
	Local  []api.Check `json:"local"`            // found by this command
	Server *api.Doctor `json:"server,omitempty"` // found by a server that runs
	Away   string      `json:"server_error,omitempty"`
}

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what is there, what is missing, what that costs and how to mend it",
		Long: `Examines this machine, and, when a server runs, adds what that found. It ends
with status 1 when something is missing without which no desktop runs.`,
		Example: `  vmhost doctor
  vmhost doctor --json | jq '.local[] | select(.ok|not)'`,
		Args: args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	r := report{OK: true, Local: []api.Check{}}
	if a.Checks != nil {
		r.Local = a.Checks(ctx, a.Globals.DataDir)
	}
	r.OK = healthy(r.Local)
	if c, err := a.client(client.WithRetries(0, 0)); err != nil {
		r.Away = err.Error()
	} else if found, err := c.Doctor(ctx); err != nil {
		r.Away = err.Error()
	} else {
		r.Server = &found
		r.OK = r.OK && found.OK
	}
	if err := a.print(r, r.write); err != nil {
		return err
	}
	if !r.OK {
		return exitError(1)
	}
	return nil
}

func healthy(checks []api.Check) bool {
	for _, c := range checks {
		if c.Level == "error" {
			return false
		}
	}
	return true
}

func (r report) write(w io.Writer) {
	fmt.Fprintln(w, "This machine:")
	writeChecks(w, r.Local)
	if r.Server == nil {
		fmt.Fprintf(w, "Server: none answers (%s); these are checks of this machine alone.\n", r.Away)
		return
	}
	more := r.besides()
	if len(more) == 0 {
		fmt.Fprintln(w, "The server sees the same.")
		return
	}
	fmt.Fprintln(w, "The server sees besides:")
	writeChecks(w, more)
}

// besides are the checks with which the server says something else than this
// command; details such as free memory differ from one moment to the next.
func (r report) besides() []api.Check {
	var more []api.Check
	for _, c := range r.Server.Checks {
		if !slices.ContainsFunc(r.Local, func(l api.Check) bool {
			return l.Name == c.Name && l.Level == c.Level && (c.OK || l.Detail == c.Detail)
		}) || c.Name == "address" {
			more = append(more, c)
		}
	}
	return more
}

func writeChecks(w io.Writer, checks []api.Check) {
	var rows [][]string
	for _, c := range checks {
		level := c.Level
		if level == "" {
			level = "ok"
		}
		rows = append(rows, []string{"  " + level, c.Name, c.Detail})
		if c.Cost != "" {
			rows = append(rows, []string{"", "", "cost: " + c.Cost})
		}
		if c.Fix != "" {
			rows = append(rows, []string{"", "", "mend: " + c.Fix})
		}
	}
	table(w, rows...)
}

func (a *app) versionCmd() *cobra.Command {
	var server bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version",
		Example: `  vmhost version
  vmhost version --server`,
		Args: args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !server {
				return a.print(map[string]string{"version": a.Version}, func(w io.Writer) { fmt.Fprintln(w, a.Version) })
			}
			c, err := a.client(client.WithRetries(0, 0))
			if err != nil {
				return err
			}
			info, err := c.Info(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(info, func(w io.Writer) {
				fmt.Fprintf(w, "%s at %s: %s %s, accelerator %s, %d desktops\n",
					info.Version, c.Address(), info.Provider, info.ProviderVersion, info.Accelerator, info.Desktops)
			})
		},
	}
	cmd.Flags().BoolVar(&server, "server", false, "ask the server for its own")
	return cmd
}

func (a *app) demoCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "demo D",
		Short: "Show a desktop under control",
		Long: `Opens a terminal by clicking, types a line, reads the result back by exec, and
saves a picture. It may be repeated.`,
		Example: "  vmhost demo first -o screenshot.png",
		Args:    args(1, 1), ValidArgsFunction: a.completeDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.demo(cmd.Context(), given[0], out) },
	}
	cmd.Flags().StringVarP(&out, "output", "o", "screenshot.png", "`file` for the picture")
	return cmd
}

func (a *app) demo(ctx context.Context, ref, out string) error {
	d, err := a.desktop(ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	result, err := demo.Run(ctx, d, a.say)
	if err != nil {
		return err
	}
	if err := writePicture(out, result.Picture); err != nil {
		return err
	}
	return a.print(map[string]any{"file": out, "text": result.Text, "opened": result.Opened}, func(w io.Writer) {
		fmt.Fprintf(w, `
The picture is in %[1]s.
API:   %[2]s   (described at %[2]s/docs)
Token: %[3]s

Try next:
  vmhost exec -it %[4]s -- bash
  vmhost screenshot %[4]s -o screen.png
  vmhost launch %[4]s --url https://example.org
  vmhost cp README.md %[4]s:/workspace/
  vmhost forward %[4]s 8080
`, out, a.Globals.Address, a.tokenPlace(), ref)
	})
}

// tokenPlace says where the token lies.
func (a *app) tokenPlace() string {
	switch {
	case a.TokenFile != "":
		return a.TokenFile
	case a.Token != "":
		return "in the environment"
	default:
		return a.tokenFile()
	}
}
