package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/runner"
	"github.com/deskfork/deskfork/pkg/guest"
)

const tagVariable = runner.TagVariable

func shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd.exe", "/C", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// files are the ends of the program's streams.
type files struct {
	child [3]*os.File // closed after the start
	in    *os.File    // ours; nil: none
	outs  []*os.File  // ours: stdout and stderr, or the terminal
	tty   bool
}

func (f *files) closeChild() {
	for i, c := range f.child {
		if c != nil && (i == 0 || c != f.child[i-1]) {
			c.Close()
		}
	}
}

func (f *files) closeAll() {
	f.closeChild()
	if f.in != nil && !f.tty {
		f.in.Close()
	}
	for _, o := range f.outs {
		o.Close()
	}
}

// command is the program with its arguments.
func (e *Exec) command() []string {
	if e.spec.Shell != "" {
		return shell(e.spec.Shell)
	}
	return e.spec.Argv
}

// spawn starts the program as u and wires its streams.
func (e *Exec) spawn(u account.User, env []string) error { return e.spawnWith(u, env, e.command()) }

// spawnWith is spawn for a command line in place of the program's own. The process has
// more besides its streams.
func (e *Exec) spawnWith(u account.User, env, argv []string, more ...*os.File) error {
	var dir, path string
	err := u.Do(func() (err error) {
		if dir, err = workingDir(u, e.spec.Dir); err != nil {
			return err
		}
		path, err = account.LookPath(argv[0], dir, env)
		return err
	})
	if err != nil {
		return err
	}
	f, err := e.open(u)
	if err != nil {
		return err
	}
	attr := &os.ProcAttr{Dir: dir, Env: env, Files: append(f.child[:], more...)}
	if err := e.start(u, path, argv, attr, f.tty); err != nil {
		f.closeAll()
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	f.closeChild()
	e.stdin.f, e.stdin.tty = f.in, f.tty
	rings := []*ring{e.out, e.err}
	for i, o := range f.outs {
		e.pumps = append(e.pumps, newPump(o, rings[i]))
	}
	if f.tty {
		e.tty = f.outs[0]
		e.err.finish()
	}
	return nil
}

func (e *Exec) open(u account.User) (*files, error) {
	if e.spec.PTY {
		return openTerminal(u, e.spec.Cols, e.spec.Rows)
	}
	f := &files{}
	err := func() (err error) {
		if e.spec.Stdin {
			f.child[0], f.in, err = pipe(true)
		} else {
			f.child[0], err = openNull()
		}
		if err != nil {
			return err
		}
		for i := 1; i <= 2; i++ {
			r, w, err := pipe(false)
			if err != nil {
				return err
			}
			f.child[i] = w
			f.outs = append(f.outs, r)
		}
		return nil
	}()
	if err != nil {
		f.closeAll()
		return nil, fmt.Errorf("open standard streams: %w", err)
	}
	return f, nil
}

// workingDir is where the program starts. A home that does not exist is no
// reason not to run.
func workingDir(u account.User, dir string) (string, error) {
	if dir == "" {
		if st, err := os.Stat(u.Home); err == nil && st.IsDir() {
			return u.Home, nil
		}
		return filepath.FromSlash("/"), nil
	}
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		dir = filepath.Join(u.Home, dir[1:])
	} else if !filepath.IsAbs(dir) {
		dir = filepath.Join(u.Home, dir)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("open working directory: %w", err)
	}
	if !st.IsDir() {
		return "", &guest.Error{Code: guest.CodeNotDir, Message: fmt.Sprintf("working directory %s is not a directory", dir)}
	}
	return dir, nil
}
