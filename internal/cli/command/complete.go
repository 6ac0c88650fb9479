package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// completeWithin keeps the shell from hanging on a server that is away.
const completeWithin = 2 * time.Second

// Completion is how cobra completes arguments.
type Completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// CompleteDesktops completes the first most arguments (< 0: all) with names of
// desktops.
func (a *App) CompleteDesktops(most int) Completion {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.DeleteFunc(a.Names(cmd.Context(), prefix), func(n string) bool { return slices.Contains(given, n) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// Names lists the names of desktops that begin so.
func (a *App) Names(ctx context.Context, prefix string) []string {
	c, err := a.Client(client.WithRetries(0, 0))
	if err != nil {
		return nil // completion has no way to say why
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	list, err := c.Desktops().List(ctx, client.Filter{})
	if err != nil {
		return nil
	}
	var names []string
	for _, d := range list {
		if strings.HasPrefix(d.Name, prefix) {
			names = append(names, d.Name)
		}
	}
	return names
}

// CompleteImages completes the first argument with names of images.
func (a *App) CompleteImages(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	c, err := a.Client(client.WithRetries(0, 0))
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	images, err := c.Images().List(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, i := range images {
		if strings.HasPrefix(i.Name, prefix) {
			names = append(names, i.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteSnapshots completes the arguments from the first'th up to the most'th
// (< 0: all) with names of snapshots. Those before are names of desktops.
func (a *App) CompleteSnapshots(first, most int) Completion {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(given) < first {
			return a.CompleteDesktops(first)(cmd, given, prefix)
		}
		c, err := a.Client(client.WithRetries(0, 0))
		if err != nil || (most >= 0 && len(given) >= most) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		list, err := c.Snapshots().List(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, s := range list {
			if s.Name != "" && strings.HasPrefix(s.Name, prefix) && !slices.Contains(given[first:], s.Name) {
				names = append(names, s.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// OneOf completes a flag with fixed words.
func OneOf(cmd *cobra.Command, flag string, words ...string) {
	// The only error is that of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Stages lists the readiness stages in order.
func Stages() []api.Stage {
	return []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
}
