// Package input puts the files that a session brings along into its desktop: it
// implements session.Inputs on guestd's files.
//
// Files are written to a directory that nobody but the administrator sees, each
// compared with its size and hash as it goes. When all are there the directory gets
// its name in one step, and is read-only. Before a machine that is kept is suspended
// they are taken away: inputs belong to one run.
package input

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/input/rule"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Stage is the stage of errors of inputs.
const Stage = "session inputs"

// cleanup bounds the removal of what a failed call has written.
const cleanup = 20 * time.Second

// Error says which input could not be had, and why.
type Error struct {
	Name string
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return "input " + e.Name + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Config is what inputs are put with.
type Config struct {
	// Guest finds the live parts of a desktop.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
	// Mount is where guests have them [session.InputPath].
	Mount string
	// User may write there [root].
	User string
}

// Inputs implements session.Inputs. Safe for concurrent use.
type Inputs struct{ cfg Config }

var _ session.Inputs = (*Inputs)(nil)

// New makes the port. It starts nothing.
func New(c Config) *Inputs {
	if c.Mount == "" {
		c.Mount = session.InputPath
	}
	if c.User == "" {
		c.User = "root"
	}
	return &Inputs{cfg: c}
}

// Materialize implements session.Inputs. Again, it makes the same set anew.
func (i *Inputs) Materialize(ctx context.Context, in session.InputContext, _ *session.Candidate) error {
	files, err := i.files(in)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return nil
	}
	if in.Access == nil {
		return fmt.Errorf("the session brings %d files, and nothing fetches them: %w", len(files), session.ErrUnsupported)
	}
	parts, err := i.parts(ctx, in.Lease)
	if err != nil {
		return err
	}
	p := &putting{cfg: i.cfg, parts: parts, access: in.Access, left: session.MaxInputBytes}
	p.stage = path.Join(path.Dir(i.cfg.Mount), ".inputs-"+strings.ToLower(rand.Text()[:12]))
	if err := p.all(ctx, files); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		return errors.Join(err, p.shell(ctx, remove, p.stage))
	}
	return nil
}

// Synchronize implements session.Inputs. Files go one way only; after the harness has
// ended they are removed, so that no machine that is kept has them.
func (i *Inputs) Synchronize(ctx context.Context, in session.InputContext) error {
	if in.Key != in.Tenure.Key(session.StageSynchronize.Of("final")) {
		return nil
	}
	files, err := i.files(in)
	if err != nil || len(files) == 0 {
		return err
	}
	parts, err := i.parts(ctx, in.Lease)
	if err != nil {
		return err
	}
	p := &putting{cfg: i.cfg, parts: parts}
	if err := p.shell(ctx, remove, i.cfg.Mount); err != nil {
		return fmt.Errorf("remove inputs: %w", err)
	}
	return nil
}

func (i *Inputs) parts(ctx context.Context, l session.Lease) (*live.Desktop, error) {
	project, id, err := sandbox.Desktop(l)
	if err != nil {
		return nil, err
	}
	return i.cfg.Guest(ctx, project, id)
}

// file is one that is to be put.
type file struct {
	session.Resource

	name string // below the mount
}

// files finds what is to be put, and refuses what cannot be.
func (i *Inputs) files(in session.InputContext) ([]file, error) {
	var all []file
	var names []string
	for _, r := range in.Session.Resources {
		switch r.Type {
		case session.ResourceFile:
		case session.ResourceMemory:
			if in.WorkerOwnsMemory {
				continue
			}
			fallthrough
		case session.ResourceRepository:
			return nil, &Error{r.MountPath, fmt.Errorf("a %s: %w", r.Type, session.ErrUnsupported)}
		default:
			return nil, &Error{r.MountPath, fmt.Errorf("resources of type %q: %w", r.Type, session.ErrUnsupported)}
		}
		name, below := strings.CutPrefix(r.MountPath, strings.TrimSuffix(i.cfg.Mount, "/")+"/")
		if !below {
			return nil, &Error{r.MountPath, fmt.Errorf("it does not lie below %s: %w", i.cfg.Mount, session.ErrUnsupported)}
		}
		all, names = append(all, file{r, name}), append(names, name)
	}
	for i, err := range rule.Names(names) {
		if err != nil {
			return nil, &Error{names[i], err}
		}
	}
	return all, nil
}

// Scripts of what is done beside the files. All work for a user who is not root, too,
// where that is whose the directory is.
const (
	prepare = `set -e; umask 022; rm -rf -- "$1"; mkdir -p -- "${1%/*}"; mkdir -m 700 -- "$1"; cd -- "$1"; shift; test $# = 0 || mkdir -p -- "$@"`
	remove  = `set -e; if test -d "$1" && test ! -L "$1"; then chmod -R u+w -- "$1"; fi; rm -rf -- "$1" || rm -rf -- "$1"`
	reveal  = `set -e; if test -d "$2" && test ! -L "$2"; then chmod -R u+w -- "$2"; fi; rm -rf -- "$2"; find "$1" -type d -exec chmod 555 {} +; mv -T -- "$1" "$2"`
)

// putting is one set of files on its way.
type putting struct {
	cfg    Config
	parts  *live.Desktop
	access session.InputAccess
	stage  string
	left   int64 // bytes that the set may still have
}

func (p *putting) all(ctx context.Context, files []file) error {
	// Writing a file makes no directories: one that was given up may end in the guest
	// when what there was is removed already.
	prepared := []string{p.stage}
	for _, f := range files {
		if dir := path.Dir(f.name); dir != "." {
			prepared = append(prepared, dir)
		}
	}
	if err := p.shell(ctx, prepare, prepared...); err != nil {
		return fmt.Errorf("make the directory of inputs: %w", err)
	}
	for _, f := range files {
		if err := p.one(ctx, f); err != nil {
			return &Error{f.name, err}
		}
	}
	if err := p.shell(ctx, reveal, p.stage, p.cfg.Mount); err != nil {
		return fmt.Errorf("name the directory of inputs: %w", err)
	}
	return nil
}

func (p *putting) one(ctx context.Context, f file) (err error) {
	from, err := p.access.OpenFile(ctx, f.Resource)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	v := newVerified(from, f.Resource, p.left)
	info, err := p.parts.Files.Write(ctx, guest.WriteParams{
		PathParams: guest.PathParams{Path: path.Join(p.stage, f.name), User: p.cfg.User}, Mode: 0o444, Exclusive: true,
	}, v)
	switch {
	case v.fault != nil:
		return v.fault // what the guest says of it says less
	case err != nil:
		return err
	case info.Size != v.n:
		return fmt.Errorf("the guest has %d bytes of %d", info.Size, v.n)
	}
	p.left -= v.n
	return nil
}

func (p *putting) shell(ctx context.Context, script string, args ...string) error {
	ran, err := p.parts.Execs.Run(ctx, guest.ExecSpec{
		Argv: append([]string{"/bin/sh", "-c", script, "inputs"}, args...), Dir: "/", User: p.cfg.User,
	}, nil)
	if err == nil && ran.Status.ExitCode != 0 {
		err = fmt.Errorf("exit status %d: %s", ran.Status.ExitCode, ran.Stderr)
	}
	return err
}
