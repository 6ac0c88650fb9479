package command

import (
	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/pkg/api"
)

// Retention adds the flags of what stays of each workspace.
func Retention(cmd *cobra.Command, req *api.PruneWorkspaces) {
	fl := cmd.Flags()
	fl.IntVar(&req.Last, "last", 0, "keep so `many` of the newest of each workspace")
	fl.IntVar(&req.Hourly, "hourly", 0, "keep the newest of each of so `many` hours")
	fl.IntVar(&req.Daily, "daily", 0, "keep the newest of each of so `many` days")
	fl.IntVar(&req.Weekly, "weekly", 0, "keep the newest of each of so `many` weeks")
	fl.IntVar(&req.Monthly, "monthly", 0, "keep the newest of each of so `many` months")
	fl.BoolVar(&req.DryRun, "dry-run", false, "only say what would go")
}
