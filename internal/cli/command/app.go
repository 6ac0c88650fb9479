// Package command is what every command of vmhost stands on: its streams, its
// connection to the server, how it prints, completes and ends.
package command

import (
	"context"
	"io"
	"sync"
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
	// Program is how the command was called, such as bin/vmhost. Empty: vmhost.
	Program string
	// Version is that of the program.
	Version string
	// Address is the server's unless --address says another. Empty: the file
	// address in the data directory says it, or else it is DefaultAddress.
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

// App is one run of a command line.
type App struct {
	Config
	Globals

	// Parsed says that the command line was understood: an error is not of its
	// use.
	Parsed bool

	saying sync.Mutex // held while a line is written to Err
}
