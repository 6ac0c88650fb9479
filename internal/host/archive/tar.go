package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// What the guest runs, as root. It begins when it is told to: what it would say
// before somebody listens is lost. lost+found is the file system's own as long as
// nothing is in it.
const (
	packing = `read -r go && cd /workspace && export LC_ALL=C &&
if [ -z "$(ls -A lost+found 2>&1)" ]; then set -- --anchored --exclude=./lost+found; fi &&
exec tar "$@" --format=posix --pax-option=delete=atime,delete=ctime --sort=name --sparse --numeric-owner --acls --xattrs --xattrs-include='*' -cf - .`
	unpacking = `export LC_ALL=C && tar --numeric-owner --same-owner --same-permissions --acls --xattrs --xattrs-include='*' -C /workspace -xf - && sync -f /workspace`
)

// maxSaid is how much of what a failing program said goes into its error.
const maxSaid = 2 << 10

// pack writes the files of a guest's workspace.
func pack(ctx context.Context, l *live.Desktop, w io.Writer) error {
	st, err := l.Execs.Start(ctx, guest.ExecSpec{
		ID: guest.ExecID(strings.ToLower(rand.Text()[:16])), Shell: packing, User: "root", Stdin: true, KillOnDetach: true,
	})
	if err != nil {
		return err
	}
	a, err := l.Execs.Attach(ctx, guest.ExecAttachParams{ID: st.ID, Stdin: true})
	if err != nil {
		return err
	}
	var said tail
	err = copyOut(ctx, a, w, &said)
	if err == nil {
		st, err = a.Wait(ctx)
	}
	_ = a.Close() // a program that has ended needs none
	if err != nil {
		return err
	}
	return outcome("read", st, said.String())
}

// copyOut copies both outputs to their ends; that of ctx ends it.
func copyOut(ctx context.Context, a live.Attachment, out, said io.Writer) error {
	stop := context.AfterFunc(ctx, func() { _ = a.Close() })
	defer stop()
	in := a.Stdin()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error {
		_, err := io.Copy(said, a.Stderr())
		return err
	})
	both.Go(func() error {
		_, err := io.Copy(out, a.Stdout())
		if err != nil {
			_ = a.Close() // the program waits for its reader
		}
		return err
	})
	err := both.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// unpack fills a guest's workspace.
func unpack(ctx context.Context, l *live.Desktop, r io.Reader) error {
	ran, err := l.Execs.Run(ctx, guest.ExecSpec{Shell: unpacking, User: "root", KillOnDetach: true}, r)
	if err != nil {
		return err
	}
	return outcome("write", ran.Status, string(ran.Stderr[max(0, len(ran.Stderr)-maxSaid):]))
}

// outcome judges how a program has ended.
func outcome(verb string, st guest.ExecStatus, said string) error {
	if st.ExitCode == 0 {
		return nil
	}
	said = strings.TrimSpace(strings.ToValidUTF8(said, "?"))
	code, hint := api.CodeGuestFailed, ""
	switch {
	case strings.Contains(said, "No space left on device"), strings.Contains(said, "Wrote only "): // tar does not ask again after a short write
		code, hint = api.CodeNoSpace, "give the workspace a larger disk"
	case verb == "write":
		code, hint = api.CodeInvalid, "it takes a tar that is not compressed and is whole"
	case strings.Contains(said, "not found"):
		code, hint = api.CodeUnsupported, "choose an image that has GNU tar"
	}
	e := api.Errorf(code, "%s files of the workspace: tar ended with status %d: %s", verb, st.ExitCode, said)
	e.Hint = hint
	return e
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if over := t.Len() - maxSaid; over > 0 {
		t.Next(over)
	}
	return len(p), nil
}
