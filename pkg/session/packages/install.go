package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/x/turns"
)

// Command is a program to run in the machine, in its root directory.
type Command struct {
	Argv []string
	Env  map[string]string
	// System: it changes the machine, and runs as root; else as the desktop's user.
	System bool
	// Timeout ends the program, whatever becomes of who started it.
	Timeout time.Duration
}

// Result is how a program ended.
type Result struct {
	ExitCode int // 128+n for signal n
	TimedOut bool
	// Stdout and Stderr are at least the last TailBytes of each.
	Stdout, Stderr []byte
}

// Exec runs programs in one machine. A program that was found and ended badly is no
// error. When ctx ends it kills the program.
type Exec interface {
	Exec(ctx context.Context, c Command) (Result, error)
}

// TailBytes is how much of a failed program's output an error quotes.
const TailBytes = 4 << 10

// Limits of time, before scaling: of the look at the markers, of a machine that
// needs packages of the system alone, and of everything.
const (
	ProbeLimit  = 15 * time.Second
	SystemLimit = 3 * time.Minute
	FullLimit   = 10 * time.Minute
)

// Where the markers are: in the machine, and in the workspace, where the marker is a
// file of the environment besides.
const (
	DefaultMachineDir = "/var/lib/deskfork"
	machineMarker     = "packages"
	environment       = ".deskfork/packages.env"
)

// Request is what to install, and where.
type Request struct {
	// Machine names it: one installation at a time is made in one.
	Machine string
	// Image is what the machine was made of; its packages fit no other.
	Image string
	List  List
	// Workspace is where the machine has it, MachineDir where its own marker lies
	// [DefaultMachineDir].
	Workspace, MachineDir string
	// Scale stretches the limits for slow machines [1].
	Scale int
	// Progress is told each step; it may be nil.
	Progress func(step string)
}

// Error says that a manager failed.
type Error struct {
	Manager  Manager
	ExitCode int
	TimedOut bool
	// Output is the end of what it said.
	Output string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("install %s packages: exit status %d", e.Manager, e.ExitCode)
	if e.TimedOut {
		text = fmt.Sprintf("install %s packages: not done in time", e.Manager)
	}
	if e.Output != "" {
		text += ":\n" + e.Output
	}
	return text
}

// Installer installs packages. Safe for concurrent use; the zero value is ready.
type Installer struct {
	busy turns.Turns // by machine
}

// Install makes the machine have what is asked for. It may be repeated: what the
// markers say is there is not installed again. A failure leaves no marker of what
// failed, so that the next call begins it anew.
func (i *Installer) Install(ctx context.Context, x Exec, r Request) error {
	if err := r.List.Validate(); err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	leave, err := i.busy.Enter(ctx, r.Machine)
	if err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	defer leave()
	r.List, r.Scale = r.List.Normal(), max(r.Scale, 1)
	if r.Workspace == "" || !path.IsAbs(r.Workspace) || strings.ContainsAny(r.Workspace, "'\"\\$`\n:") {
		return fmt.Errorf("install packages: workspace %q is not a plain absolute path", r.Workspace)
	}
	if r.MachineDir == "" {
		r.MachineDir = DefaultMachineDir
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	return (&work{Request: r, exec: x}).do(ctx)
}

// work is one installation.
type work struct {
	Request

	exec Exec
}

// do looks at the markers and installs what they do not have.
func (w *work) do(ctx context.Context) error {
	machine, workspace := w.List.digests(w.Image)
	hasMachine, hasWorkspace, err := w.look(ctx, machine, workspace)
	if err != nil || hasMachine && hasWorkspace {
		return err
	}
	limit := FullLimit
	if hasWorkspace {
		limit = SystemLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit*time.Duration(w.Scale))
	defer cancel()
	if !hasMachine {
		if err := w.system(ctx, machine); err != nil {
			return err
		}
	}
	if !hasWorkspace {
		return w.languages(ctx, workspace)
	}
	return nil
}

// look reads both markers. One that cannot be read is none.
func (w *work) look(ctx context.Context, machine, workspace string) (hasMachine, hasWorkspace bool, err error) {
	const script = `for f; do head -n 1 -- "$f" 2>/dev/null || echo; done`
	ctx, cancel := context.WithTimeout(ctx, ProbeLimit*time.Duration(w.Scale))
	defer cancel()
	out, err := w.run(ctx, "", sh(script, w.machineMarker(), w.environment()))
	if err != nil {
		return false, false, fmt.Errorf("install packages: read markers: %w", err)
	}
	lines := strings.Split(string(out), "\n")
	return slices.Contains(lines, mark(machine)), slices.Contains(lines, mark(workspace)), nil
}

// mark is the first line of a marker, a comment to shells.
func mark(digest string) string { return "# deskfork packages " + digest }

func (w *work) machineMarker() string { return path.Join(w.MachineDir, machineMarker) }
func (w *work) environment() string   { return Environment(w.Workspace) }

// Environment is the file that lets a shell find what is installed in a workspace.
func Environment(workspace string) string { return path.Join(workspace, environment) }

// system installs packages of the system, with the programs that install those of
// languages where they are missing.
func (w *work) system(ctx context.Context, digest string) error {
	all := slices.Clone(w.List.Apt)
	for _, m := range languages {
		if len(*w.List.of(m)) == 0 {
			continue
		}
		r, err := w.exec.Exec(ctx, w.limited(ctx, Command{Argv: sh(tools[m].there).Argv}))
		if err != nil {
			return fmt.Errorf("install packages: look for %s: %w", m, err)
		}
		if r.ExitCode != 0 {
			all = append(all, tools[m].packages...)
		}
	}
	if err := w.unmark(ctx, true); err != nil {
		return err
	}
	if len(all) > 0 {
		w.Progress("install apt packages")
		for _, c := range apt(all) {
			if _, err := w.run(ctx, Apt, c); err != nil {
				return err
			}
		}
	}
	return w.write(ctx, true, w.machineMarker(), mark(digest)+"\n")
}

// languages installs packages of languages, and then says how to find them.
func (w *work) languages(ctx context.Context, digest string) error {
	if err := w.unmark(ctx, false); err != nil {
		return err
	}
	for _, m := range languages {
		all := *w.List.of(m)
		if len(all) == 0 {
			continue
		}
		w.Progress("install " + string(m) + " packages")
		for _, c := range tools[m].install(w.Workspace, all) {
			if _, err := w.run(ctx, m, c); err != nil {
				return err
			}
		}
	}
	return w.write(ctx, false, w.environment(), mark(digest)+"\n"+w.exports())
}

func (w *work) unmark(ctx context.Context, system bool) error {
	file := w.environment()
	if system {
		file = w.machineMarker()
	}
	c := Command{Argv: []string{"rm", "-f", "--", file}, System: system}
	if _, err := w.run(ctx, "", c); err != nil {
		return fmt.Errorf("install packages: remove marker: %w", err)
	}
	return nil
}

// write replaces a small file, whole or not at all.
func (w *work) write(ctx context.Context, system bool, file, text string) error {
	const script = `mkdir -p -- "$1" && printf %s "$3" >"$2.new" && mv -f -- "$2.new" "$2"`
	c := sh(script, path.Dir(file), file, text)
	c.System = system
	if _, err := w.run(ctx, "", c); err != nil {
		return fmt.Errorf("install packages: write %s: %w", file, err)
	}
	return nil
}

// run runs a program that must end well.
func (w *work) run(ctx context.Context, m Manager, c Command) ([]byte, error) {
	r, err := w.exec.Exec(ctx, w.limited(ctx, c))
	switch {
	case err == nil && r.ExitCode == 0 && !r.TimedOut:
		return r.Stdout, nil
	case err != nil && m == "":
		return nil, err
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("install %s packages: %w", m, err)
	}
	return nil, &Error{
		Manager: m, ExitCode: r.ExitCode, TimedOut: r.TimedOut || err != nil, Output: tail(r.Stdout, r.Stderr),
	}
}

// limited gives a program the time that is left.
func (w *work) limited(ctx context.Context, c Command) Command {
	if end, ok := ctx.Deadline(); ok {
		c.Timeout = max(time.Until(end), time.Millisecond)
	}
	return c
}

// tail is the end of what a program said, what it said on standard error last.
func tail(stdout, stderr []byte) string {
	text := bytes.TrimSpace(append(append(bytes.Clone(stdout), '\n'), stderr...))
	if len(text) > TailBytes {
		text = text[len(text)-TailBytes:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(text), "\x00", ""), "\ufffd"))
}
