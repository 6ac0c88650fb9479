package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/attach"
	"github.com/deskfork/deskfork/pkg/api"
)

// Config is all that a command line hangs on. In, Out and Err are required.
type Config struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// Version is that of the program.
	Version string
	// Address is the server's unless --address says another.
	// Default http://127.0.0.1:7717.
	Address string
	// Token is the bearer token unless --token-file names one; empty: the file
	// token in the data directory.
	Token string
	// DataDir is the default of --data-dir.
	DataDir string
	// Terminal is that of In and Out; nil when they are none.
	Terminal Terminal
	// Progress says that Err is a terminal, where a line may be overwritten.
	Progress bool
	// Checks are those of the doctor that need no server.
	Checks func(ctx context.Context, dataDir string) []api.Check
	// Serve and Build make the commands that do not talk to a server: serve
	// and image build. Nil: there are none.
	Serve, Build func(*Globals) *cobra.Command
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Terminal is the user's.
type Terminal = attach.Terminal

// Globals are the flags of every command.
type Globals struct {
	DataDir   string
	Address   string
	TokenFile string
	JSON      bool
}

// app is one run of a command line.
type app struct {
	Config
	Globals

	parsed bool // the command line was understood: an error is not of its use
}

// Run runs one command line and returns the exit status. Ending ctx ends the
// command in an orderly way.
func Run(ctx context.Context, cfg Config, args []string) int {
	if cfg.Address == "" {
		cfg.Address = "http://127.0.0.1:7717"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &app{Config: cfg}
	root := a.root() //nolint:contextcheck // cobra hands ctx to the commands
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
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
  vmhost rm first`,
		SilenceUsage: true, SilenceErrors: true, DisableAutoGenTag: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.parsed = true },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.StringVar(&a.Globals.Address, "address", a.Config.Address, "the server's `URL`")
	f.StringVar(&a.TokenFile, "token-file", "", "`file` with the bearer token (default: token in the data directory)")
	f.StringVar(&a.Globals.DataDir, "data-dir", a.Config.DataDir, "`directory` of images, machines and the token")
	f.BoolVar(&a.JSON, "json", false, "print JSON")
	root.AddGroup(
		&cobra.Group{ID: "desktops", Title: "Desktops:"},
		&cobra.Group{ID: "inside", Title: "Inside a desktop:"},
		&cobra.Group{ID: "screen", Title: "Screen, pointer and keyboard:"},
		&cobra.Group{ID: "host", Title: "Host:"},
	)
	a.group(root, "desktops", a.createCmd(), a.lsCmd(), a.inspectCmd(), a.waitCmd(), a.rmCmd(), a.logsCmd(), a.eventsCmd())
	a.group(root, "inside", a.execCmd(), a.cpCmd(), a.launchCmd(), a.forwardCmd())
	a.group(root, "screen", a.screenshotCmd(), a.clickCmd(), a.moveCmd(), a.dragCmd(), a.scrollCmd(),
		a.typeCmd(), a.keyCmd(), a.clipboardCmd(), a.windowsCmd())
	a.group(root, "host", a.imageCmd(), a.tokenCmd(), a.doctorCmd(), a.demoCmd(), a.versionCmd())
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
