//go:build linux

// Package launch starts programs in the desktop session that outlive the
// helper.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper/singleton"
	"github.com/deskfork/deskfork/pkg/guest"
)

// openers are tried in this order for a URL.
var openers = [...]string{"xdg-open", "exo-open", "sensible-browser", "chromium", "firefox-esr", "firefox"}

// early is how long an opener is watched: one that finds no browser ends at
// once with an error status.
const early = 500 * time.Millisecond

// Launcher starts programs. Safe for concurrent use.
type Launcher struct {
	env  []string // of the session
	home string
	wg   sync.WaitGroup // one for each program that has not ended
}

// New returns a launcher that gives programs the environment env and, unless
// told otherwise, the directory home.
func New(env []string, home string) *Launcher {
	return &Launcher{env: env, home: home}
}

// Launch starts a program, detached: its own session, no terminal, output to
// nowhere. CodeNotFound when the program or the directory does not exist,
// CodePermission when it may not be run.
func (l *Launcher) Launch(ctx context.Context, what guest.Launch) (guest.Launched, error) {
	return l.In(ctx, nil, what)
}

// In is Launch in a control group, which a program of Argv and all that it starts
// belong to from the first moment on. nil: in this process's own.
func (l *Launcher) In(ctx context.Context, group *os.File, what guest.Launch) (guest.Launched, error) {
	env := merge(l.env, what.Env)
	dir := what.Dir
	if dir == "" {
		dir = l.home
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return guest.Launched{}, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("launch in %s: there is no such directory", dir)}
	}
	switch {
	case what.URL != "" && len(what.Argv) > 0:
		return guest.Launched{}, &guest.Error{Code: guest.CodeInvalid, Message: "launch: give argv or url, not both"}
	case what.URL != "":
		return l.open(ctx, what.URL, env, dir)
	case len(what.Argv) == 0 || what.Argv[0] == "":
		return guest.Launched{}, &guest.Error{Code: guest.CodeInvalid, Message: "launch: give argv or url"}
	}
	path, err := lookPath(what.Argv[0], env, dir)
	if err != nil {
		return guest.Launched{}, err
	}
	p, err := l.start(path, what.Argv, env, dir, group)
	if err != nil {
		return guest.Launched{}, err
	}
	return guest.Launched{PID: p.pid}, nil
}

func (l *Launcher) open(ctx context.Context, raw string, env []string, dir string) (guest.Launched, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || strings.HasPrefix(raw, "-") {
		return guest.Launched{}, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("open %q: it is not a URL with a scheme", raw)}
	}
	if l.Browses(raw) { // one that runs need not be started a second time
		pid, err := singleton.Open(ctx, Profile(ConfigDir(l.env, l.home)), dir, raw)
		if err == nil {
			return guest.Launched{PID: pid}, nil
		}
		if ctx.Err() != nil {
			return guest.Launched{}, fmt.Errorf("open URL: %w", context.Cause(ctx))
		}
	}
	for _, name := range openers {
		path, err := lookPath(name, env, dir)
		if err != nil {
			continue
		}
		p, err := l.start(path, []string{name, raw}, env, dir, nil)
		if err != nil {
			return guest.Launched{}, err
		}
		t := time.NewTimer(early)
		select {
		case <-p.done:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return guest.Launched{}, fmt.Errorf("open URL: %w", context.Cause(ctx))
		}
		t.Stop()
		if p.failed() {
			continue
		}
		return guest.Launched{PID: p.pid}, nil
	}
	return guest.Launched{}, &guest.Error{Code: guest.CodeNotFound, Message: "open URL: no browser opened it; install one (tried " + strings.Join(openers[:], ", ") + ")"}
}

// Browses reports whether an address is a page that Chromium opens: the user's own
// settings name no other program.
func (l *Launcher) Browses(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains([]string{"http", "https", "about", "data", "file"}, u.Scheme) && !chosen(ConfigDir(l.env, l.home))
}

// ConfigDir is where a session's programs have their settings.
func ConfigDir(env []string, home string) string {
	if dir := Value(env, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(home, ".config")
}

// Profile is Chromium's directory among the settings.
func Profile(config string) string { return filepath.Join(config, "chromium") }

// chosen reports whether the user's own settings name a browser.
func chosen(config string) bool {
	for file, word := range map[string]string{
		"mimeapps.list": "x-scheme-handler/http", filepath.Join("xfce4", "helpers.rc"): "WebBrowser=",
	} {
		b, err := os.ReadFile(filepath.Join(config, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Contains(string(b), word) {
			return true
		}
	}
	return false
}

type process struct {
	pid  int
	done chan struct{}
	err  error // valid after done
}

func (p *process) failed() bool {
	select {
	case <-p.done:
		return p.err != nil
	default:
		return false
	}
}

func (l *Launcher) start(path string, argv, env []string, dir string, group *os.File) (*process, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
	if group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	// Not tied to a context: the program outlives the request and the helper.
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Dir: dir, SysProcAttr: attr}
	if err := cmd.Start(); err != nil {
		return nil, startError(argv[0], err)
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{})}
	l.wg.Go(func() { // reaps it; Wait waits for these
		p.err = cmd.Wait()
		close(p.done)
	})
	return p, nil
}

// Wait returns when every program has ended that Launch started. The helper
// itself never waits: its programs outlive it.
func (l *Launcher) Wait() { l.wg.Wait() }

func startError(name string, err error) error {
	code := guest.CodeInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = guest.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		code = guest.CodePermission
	case errors.Is(err, syscall.ENOEXEC):
		code = guest.CodeInvalid
	}
	return &guest.Error{Code: code, Message: fmt.Sprintf("launch %s: %v", name, err)}
}

// lookPath finds a program as a shell would, in the PATH of env, relative to dir.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := executable(name); err != nil {
			return "", startError(name, err)
		}
		return name, nil
	}
	for _, d := range filepath.SplitList(Value(env, "PATH")) {
		if p := filepath.Join(d, name); filepath.IsAbs(d) && executable(p) == nil {
			return p, nil
		}
	}
	return "", &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("launch %s: there is no such program", name)}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

// Value returns a variable; the last one counts, as in exec.
func Value(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

func merge(env []string, more map[string]string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		_, over := more[k]
		return over
	})
	keys := make([]string, 0, len(more))
	for k := range more {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		out = append(out, k+"="+more[k])
	}
	return out
}
