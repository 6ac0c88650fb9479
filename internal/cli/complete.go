package cli

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

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeDesktops completes the first most arguments (< 0: all) with names of
// desktops.
func (a *app) completeDesktops(most int) completion {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.DeleteFunc(a.names(cmd.Context(), prefix), func(n string) bool { return slices.Contains(given, n) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCopy completes D: and local files.
func (a *app) completeCopy(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(prefix, "/.:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names := a.names(cmd.Context(), prefix)
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// names lists the names of desktops that begin so.
func (a *app) names(ctx context.Context, prefix string) []string {
	c, err := a.client(client.WithRetries(0, 0))
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

// completeImages completes the first argument with names of images.
func (a *app) completeImages(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client(client.WithRetries(0, 0))
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

// oneOf completes a flag with fixed words.
func oneOf(cmd *cobra.Command, flag string, words ...string) {
	// The only error is that of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// stages lists the readiness stages in order.
func stages() []api.Stage {
	return []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
}

func stageNames() []string {
	var names []string
	for _, s := range stages() {
		names = append(names, string(s))
	}
	return names
}
