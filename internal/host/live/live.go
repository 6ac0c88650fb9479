// Package live says what the host needs of a running desktop: the link to its
// guest, its picture and its input. The host is written against these contracts;
// adapters for the real packages lie in internal/host/adapter.
package live

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Dialer opens connections to ports of one guest over its private network.
type Dialer func(ctx context.Context, port int) (net.Conn, error)

// Desktop is all that one running machine offers. Its parts may be used from
// any goroutine, and wait for nothing but their own context.
type Desktop struct {
	Link    Link
	Execs   Execs
	Files   Files
	Session Session
	Windows Windows
	Screen  Screen
	Input   Input
	Display Display
}

// Display is the screen frame by frame and its pointer and keyboard event by
// event, for people who watch and act. All are nil where there is none.
type Display struct {
	Source desktop.Source
	Input  desktop.Input
	// Stream encodes the screen for viewers.
	Stream *stream.Stream
}

// Link is the connection to guestd. While it is down calls of all parts fail
// with an error that is guest.CodeGone or wait for it, as their context allows.
type Link interface {
	// Run keeps the link up and the picture's source alive. It returns when ctx
	// has ended and everything that it started with it.
	Run(ctx context.Context) error
	// Hello waits until guestd answers and says who it is.
	Hello(ctx context.Context) (guest.Hello, error)
	Handshake(ctx context.Context, h guest.Handshake) (guest.Handshaken, error)
	// Dial opens a connection to a port as guestd sees it, loopback included.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// Rester is an ability of Link: to know that the guest stands still.
type Rester interface {
	// Suspend says that the guest stands still, so that its silence is no reason
	// to give the connection up; Resume that it runs again.
	Suspend()
	Resume()
	// SetClock sets the guest's clock.
	SetClock(ctx context.Context, now time.Time) error
}

// Freezer is an ability of Link: to hold back writes to /workspace. See
// guest.FreezeParams.
type Freezer interface {
	Freeze(ctx context.Context, p guest.FreezeParams) (guest.Frozen, error)
	Thaw(ctx context.Context, id string) (held bool, err error)
}

// Ran is the end of a program that was run.
type Ran struct {
	Status guest.ExecStatus
	Stdout []byte
	Stderr []byte
	// Truncated says that an output was longer than what is collected.
	Truncated bool
}

// Execs runs programs in the guest.
type Execs interface {
	Start(ctx context.Context, spec guest.ExecSpec) (guest.ExecStatus, error)
	// Run starts a program, feeds it, and waits for its end. When ctx ends first
	// the program is killed.
	Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (Ran, error)
	Attach(ctx context.Context, p guest.ExecAttachParams) (Attachment, error)
	Status(ctx context.Context, id guest.ExecID) (guest.ExecStatus, error)
	List(ctx context.Context) ([]guest.ExecStatus, error)
	Signal(ctx context.Context, id guest.ExecID, signal string) error
	// Remove forgets an exec and kills it when it runs.
	Remove(ctx context.Context, id guest.ExecID) error
}

// Waiter waits for the end of an exec; an ability of Execs.
type Waiter interface {
	// Wait goes on over lost connections.
	Wait(ctx context.Context, id guest.ExecID) (guest.ExecStatus, error)
}

// Taker tells how far standard input has got; an ability of Attachment.Stdin.
type Taker interface {
	// Taken is the offset below which all input is certainly the guest's.
	Taken() int64
	// NotifyTaken has fn called when Taken may have grown, and when no more is wanted,
	// which an empty Write then says; fn must not wait.
	NotifyTaken(fn func())
}

// Follow tells how far standard input has got, each time that it may have grown,
// until ctx ends or tell fails.
func Follow(ctx context.Context, t Taker, tell func(taken int64) error) {
	grown := make(chan struct{}, 1)
	t.NotifyTaken(func() {
		select {
		case grown <- struct{}{}:
		default: // it is told in any case
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-grown:
		}
		if tell(t.Taken()) != nil {
			return
		}
	}
}

// Sealer starts programs whose secrets stay out of the guest's other memory; an
// ability of Execs.
type Sealer interface {
	StartSealed(ctx context.Context, spec guest.ExecSpec, s guest.Secrets) (guest.ExecStatus, error)
}

// Attachment is one client's hold on an exec.
type Attachment interface {
	Started() guest.ExecAttached
	// Stdout and Stderr end with io.EOF when the program has closed them.
	Stdout() io.Reader
	Stderr() io.Reader
	// Stdin writes to the program; its Close is the half-close. It refuses
	// when the attachment was made without.
	Stdin() io.WriteCloser
	Resize(ctx context.Context, cols, rows uint16) error
	// Wait returns the final status once the program has ended and its output
	// was read.
	Wait(ctx context.Context) (guest.ExecStatus, error)
	// Close detaches; the program goes on.
	Close() error
}

// Files reads and changes the guest's file system.
type Files interface {
	Stat(ctx context.Context, p guest.PathParams) (guest.FileInfo, error)
	List(ctx context.Context, p guest.ListParams) ([]guest.FileInfo, error)
	// Read writes the bytes to w.
	Read(ctx context.Context, p guest.ReadParams, w io.Writer) error
	// Write replaces the file when r has ended well; when r fails the old file
	// stays and nothing is left.
	Write(ctx context.Context, p guest.WriteParams, r io.Reader) (guest.FileInfo, error)
	// Change does one of the small ones: guest.MkdirParams, RemoveParams,
	// RenameParams or ChmodParams.
	Change(ctx context.Context, change any) error
	TarOut(ctx context.Context, p guest.PathParams, w io.Writer) error
	TarIn(ctx context.Context, p guest.PathParams, r io.Reader) (guest.TarResult, error)
}

// Watcher tells of changes of files; an ability of Files.
type Watcher interface {
	// Watch calls each for every change until ctx ends or each fails.
	Watch(ctx context.Context, p guest.WatchParams, each func(guest.FileChange) error) error
}

// Session is the desktop's X session. While it has none, calls fail with an
// error that is guest.CodeNoDisplay.
type Session interface {
	Ready(ctx context.Context) (guest.Screen, error)
	SetScreen(ctx context.Context, width, height int) (guest.Screen, error)
	SetKeyboard(ctx context.Context, k guest.Keyboard) error
	Pointer(ctx context.Context) (guest.Point, error)
	// Screenshot takes a PNG from inside the guest.
	Screenshot(ctx context.Context, cursor bool) (guest.Screenshot, error)
	Launch(ctx context.Context, l guest.Launch) (int, error)
	// Park starts a program and keeps its window off the screen until it is
	// started again.
	Park(ctx context.Context, p guest.Park) error
}

// Windows lists and changes windows, and holds the clipboard.
type Windows interface {
	List(ctx context.Context) ([]guest.Window, error)
	Do(ctx context.Context, op guest.WindowOp) error
	Clipboard(ctx context.Context, typ string) (guest.Clipboard, error)
	SetClipboard(ctx context.Context, c guest.Clipboard) error
}

// Browser tells whether a browser has a page open; an ability of Windows.
type Browser interface {
	// Browsing calls each with the present state, and with each other one, until ctx
	// ends or the link is lost. A guest that cannot tell is guest.CodeUnsupported.
	Browsing(ctx context.Context, each func(open bool)) error
}

// Shot asks for a picture.
type Shot struct {
	JPEG     bool // else PNG
	Quality  int  // of JPEG, 1 to 100; 0: default
	Region   *api.Region
	MaxWidth int // pixels; 0: as wide as the region
	Cursor   bool
	// Unless is the ETag that the caller has; when the picture is still the same
	// nothing is encoded.
	Unless string
	// Peek says that taking it is no use of the desktop.
	Peek bool
}

// Picture answers a Shot.
type Picture struct {
	api.Picture

	ETag      string // quoted
	Unchanged bool   // Data is empty: the caller has it
}

// Waiting says what a caller waits for on the screen.
type Waiting struct {
	For   string        // change, still, notblank; within the host plain and notplain, which all pixels decide
	After uint64        // of change: frames up to this number do not count; 0: the present one
	Still time.Duration // of still: how long nothing may change
}

// Screen is the host's picture of the desktop; it works without a guest.
type Screen interface {
	Shot(ctx context.Context, s Shot) (Picture, error)
	// Wait returns the number of the frame that ended the wait.
	Wait(ctx context.Context, w Waiting) (uint64, error)
}

// Input plays actions.
type Input interface {
	// Do plays a batch up to the first failure, which the reply tells. An error
	// says that nothing could be tried.
	Do(ctx context.Context, b api.InputBatch) (api.InputReply, error)
	// Release lets go of all keys and buttons.
	Release(ctx context.Context) error
}
