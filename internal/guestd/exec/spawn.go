package exec

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// tagVariable marks every process of an exec, also one that has left its
// session and its parents.
const tagVariable = "DESKFORK_EXEC"

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

// spawn starts the program as u and wires its streams.
func (e *Exec) spawn(u account.User, env []string) error {
	argv := e.spec.Argv
	if e.spec.Shell != "" {
		argv = shell(e.spec.Shell)
	}
	var dir, path string
	err := u.Do(func() (err error) {
		if dir, err = workingDir(u, e.spec.Dir); err != nil {
			return err
		}
		path, err = lookPath(argv[0], dir, env)
		return err
	})
	if err != nil {
		return err
	}
	f, err := e.open(u)
	if err != nil {
		return err
	}
	e.cmd = &exec.Cmd{Path: path, Args: argv, Env: env, Dir: dir, Stdin: f.child[0], Stdout: f.child[1], Stderr: f.child[2]}
	if err := e.start(u, f.tty); err != nil {
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
			f.child[0], f.in, err = os.Pipe()
		} else {
			f.child[0], err = os.Open(os.DevNull)
		}
		if err != nil {
			return err
		}
		for i := 1; i <= 2; i++ {
			r, w, err := os.Pipe()
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

// lookPath finds a program in the PATH of its own environment.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') || runtime.GOOS == "windows" {
		if runtime.GOOS == "windows" {
			return exec.LookPath(name)
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("find program: %w", err)
		}
		return name, nil
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		candidate := filepath.Join(d, name)
		if st, err := os.Stat(candidate); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("find program %s in %s: %w", name, path, fs.ErrNotExist)
}
