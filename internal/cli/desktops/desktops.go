// Package desktops is the commands of a desktop's life: what makes, lists,
// forks, stops, keeps and removes desktops.
package desktops

import (
	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
)

// group is the commands of one run.
type group struct{ *command.App }

// Commands makes the commands.
func Commands(a *command.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{
		g.createCmd(), g.lsCmd(), g.inspectCmd(), g.waitCmd(), g.rmCmd(),
		g.forkCmd(), g.snapshotCmd(), g.restoreCmd(), g.workspaceCmd(), g.outputsCmd(), g.pauseCmd(), g.suspendCmd(), g.resumeCmd(), g.policyCmd(), g.treeCmd(),
	}
}
