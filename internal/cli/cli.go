package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/attach"
	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/desktops"
	"github.com/deskfork/deskfork/internal/cli/people"
)

// Config is all that a command line hangs on.
type Config = command.Config

// Globals are the flags of every command.
type Globals = command.Globals

// Terminal is the user's.
type Terminal = attach.Terminal

// AddressName is the file in a data directory that says where its server is
// reached, while that runs: a URL.
const AddressName = command.AddressName

// app is one run of a command line.
type app struct{ *command.App }

// Run runs one command line and returns the exit status. Ending ctx ends the
// command in an orderly way.
func Run(ctx context.Context, cfg Config, args []string) int {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &app{&command.App{Config: cfg}}
	root := a.root() //nolint:contextcheck // cobra hands ctx to the commands
	root.SetArgs(args)
	return a.Exit(root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "vmhost",
		Short: "Whole desktops for computer-use agents",
		Long: `vmhost runs desktops, real machines with a screen, a keyboard and a mouse,
and lets programs control them.

D is the id or name of a desktop. The server's address and token come from
--address and --token-file, from DESKFORK_ADDRESS and DESKFORK_TOKEN, or from
the data directory of a server on this machine.`,
		Example: `  vmhost create debian-xfce --name first
  vmhost exec first -- uname -a
  vmhost screenshot first -o screen.png
  vmhost click first 640 400
  vmhost type first "hello"
  vmhost fork first -n 5 --name try
  vmhost rm first`,
		SilenceUsage: true, SilenceErrors: true, DisableAutoGenTag: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.Parsed = true },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.StringVar(&a.Globals.Address, "address", a.Config.Address, "the server's `URL` (default: where the server of the data directory listens, else "+command.DefaultAddress+")")
	f.StringVar(&a.TokenFile, "token-file", "", "`file` with the bearer token (default: token in the data directory)")
	f.StringVar(&a.Globals.DataDir, "data-dir", a.Config.DataDir, "`directory` of images, machines and the token")
	f.BoolVar(&a.JSON, "json", false, "print JSON")
	root.AddGroup(
		&cobra.Group{ID: "desktops", Title: "Desktops:"},
		&cobra.Group{ID: "inside", Title: "Inside a desktop:"},
		&cobra.Group{ID: "screen", Title: "Screen, pointer and keyboard:"},
		&cobra.Group{ID: "host", Title: "Host:"},
	)
	a.group(root, "desktops", desktops.Commands(a.App)...)
	a.group(root, "desktops", a.runCmd(), a.logsCmd(), a.eventsCmd())
	a.group(root, "inside", a.execCmd(), a.cpCmd(), a.launchCmd(), a.forwardCmd())
	a.group(root, "screen", a.screenshotCmd(), a.clickCmd(), a.moveCmd(), a.dragCmd(), a.scrollCmd(),
		a.typeCmd(), a.keyCmd(), a.clipboardCmd(), a.windowsCmd())
	a.group(root, "screen", people.Commands(a.App)...)
	a.group(root, "host", a.imageCmd(), a.tokenCmd(), a.usageCmd(), a.doctorCmd(), a.demoCmd(), a.versionCmd())
	if a.Serve != nil {
		a.group(root, "host", a.Serve(&a.Globals))
	}
	root.SetHelpCommandGroupID("host")
	root.SetCompletionCommandGroupID("host")
	return root
}

func (a *app) group(root *cobra.Command, id string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = id
		root.AddCommand(c)
	}
}
