package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *app) tokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Create, list and revoke tokens",
		Example: `  vmhost token create ci --scope read,write --project ci
  vmhost token ls`,
		Args: command.Args(0, 0),
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenLs(), a.tokenRm())
	return cmd
}

func (a *app) tokenCreate() *cobra.Command {
	var spec api.CreateToken
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a token and print its secret, once",
		Example: "  umask 077; vmhost token create ci --project ci > ci.token",
		Args:    command.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			spec.Name = given[0]
			c, err := a.Client()
			if err != nil {
				return err
			}
			t, err := c.Tokens().Create(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return a.Print(t, func(w io.Writer) { fmt.Fprintln(w, t.Secret) })
		},
	}
	cmd.Flags().StringVar(&spec.Project, "project", "", "`project` that its desktops belong to (default: default)")
	cmd.Flags().StringSliceVar(&spec.Scopes, "scope", nil, "what it may do: read, write, admin, or billing: see and ack what all projects use (default read,write)")
	command.OneOf(cmd, "scope", "read", "write", "admin", "billing")
	return cmd
}

func (a *app) tokenLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tokens, without their secrets", Example: "  vmhost token ls",
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			list, err := c.Tokens().List(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(api.TokenList{Tokens: list}, func(w io.Writer) {
				rows := [][]string{{"ID", "NAME", "PROJECT", "SCOPES", "AGE"}}
				for _, t := range list {
					rows = append(rows, []string{t.ID, t.Name, t.Project, strings.Join(t.Scopes, ","), show.Ago(a.Now(), t.Created)})
				}
				show.Table(w, rows...)
			})
		},
	}
}

func (a *app) tokenRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "Revoke tokens", Example: "  vmhost token rm t42",
		Args: command.Args(1, -1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			for _, id := range given {
				if err := c.Tokens().Delete(cmd.Context(), id); err != nil {
					return err
				}
			}
			return a.Print(map[string][]string{"removed": given}, func(w io.Writer) {
				fmt.Fprintln(w, strings.Join(given, "\n"))
			})
		},
	}
}
