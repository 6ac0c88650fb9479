package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/health"
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
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	var found []api.Check
	if a.Checks != nil {
		found = a.Checks(ctx, a.Globals.DataDir)
	}
	r := health.New(found)
	if c, err := a.Client(client.WithRetries(0, 0)); err != nil {
		r.Away = err.Error()
	} else if server, err := c.Doctor(ctx); err != nil {
		r.Away = err.Error()
	} else {
		r.Add(server)
	}
	if err := a.Print(r, r.Write); err != nil {
		return err
	}
	if !r.OK {
		return command.ExitError(1)
	}
	return nil
}

func (a *app) versionCmd() *cobra.Command {
	var server bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version",
		Example: `  vmhost version
  vmhost version --server`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !server {
				return a.Print(map[string]string{"version": a.Version}, func(w io.Writer) { fmt.Fprintln(w, a.Version) })
			}
			c, err := a.Client(client.WithRetries(0, 0))
			if err != nil {
				return err
			}
			info, err := c.Info(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(info, func(w io.Writer) {
				fmt.Fprintf(w, "%s at %s: %s %s, accelerator %s, %d desktops\n",
					info.Version, c.Address(), info.Provider, info.ProviderVersion, info.Accelerator, info.Desktops)
			})
		},
	}
	cmd.Flags().BoolVar(&server, "server", false, "ask the server for its own")
	return cmd
}

// tokenPlace says where the token lies.
func (a *app) tokenPlace() string {
	switch {
	case a.TokenFile != "":
		return a.TokenFile
	case a.Token != "":
		return "in the environment"
	default:
		return a.TokenPath()
	}
}
