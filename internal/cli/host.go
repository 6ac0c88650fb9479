package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/health"
	"github.com/deskfork/deskfork/internal/demo"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

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
	var found []api.Check
	if a.Checks != nil {
		found = a.Checks(ctx, a.Globals.DataDir)
	}
	r := health.New(found)
	if c, err := a.client(client.WithRetries(0, 0)); err != nil {
		r.Away = err.Error()
	} else if server, err := c.Doctor(ctx); err != nil {
		r.Away = err.Error()
	} else {
		r.Add(server)
	}
	if err := a.print(r, r.Write); err != nil {
		return err
	}
	if !r.OK {
		return exitError(1)
	}
	return nil
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
