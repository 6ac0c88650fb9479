package display

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// Command starts the helper as a program of the session's user.
type Command struct {
	Path    string                 // of the helper
	Session func() account.Session // asked at every start
	Env     func() map[string]string
	Logger  *slog.Logger    // takes what the helper writes to standard error
	Shield  *account.Shield // lowered around starts; nil: there is none
	// Group is the directory of a cgroup for the helper and what it starts. It is
	// made and handed to the session's user, so that the helper can freeze what
	// nobody needs; when a helper has ended, that goes on. Empty: none.
	Group string
}

// Spawn implements Config.Spawn.
func (c *Command) Spawn(ctx context.Context) (*Process, error) {
	s := c.Session()
	u, err := account.Lookup(s.User)
	if err != nil {
		return nil, err
	}
	// Not CommandContext: the supervisor ends it, through Process.Kill.
	cmd := exec.Command(c.Path) //nolint:noctx // see above
	cmd.Env = account.Environ(u, s, c.Env())
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uint32(os.Geteuid()) != u.UID {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	complaints, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	if group := c.group(u); group != nil {
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := c.Shield.Lower(cmd.Start); err != nil {
		return nil, err
	}
	var logging sync.WaitGroup
	logging.Go(func() {
		for lines := bufio.NewScanner(complaints); lines.Scan(); {
			c.Logger.InfoContext(ctx, "desktop helper says", "line", lines.Text())
		}
	})
	return &Process{
		Out: out, In: in,
		Kill: func() { _ = cmd.Process.Kill() }, // an error: it has ended
		Wait: func() error {
			// Its children may hold standard error open for as long as they live.
			const enough = time.Second
			timer := time.AfterFunc(enough, func() { complaints.Close() })
			defer timer.Stop()
			logging.Wait()
			err := cmd.Wait()
			c.thaw()
			return err
		},
	}, nil
}

// group is where a helper of u is started; nil: where this process is.
func (c *Command) group(u account.User) *os.File {
	if c.Group == "" {
		return nil
	}
	dir, err := cgroup.Make(c.Group)
	if err == nil {
		err = cgroup.Delegate(c.Group, int(u.UID), int(u.GID))
	}
	if err != nil {
		c.Logger.Warn("desktop helper gets no cgroup; nothing will be frozen", "err", err)
		if dir != nil {
			dir.Close()
		}
		return nil
	}
	c.thaw() // a guestd before us may have ended with its helper
	return dir
}

// thaw lets go on what a helper has frozen that is there no more.
func (c *Command) thaw() {
	if c.Group == "" {
		return
	}
	if err := cgroup.ThawBelow(c.Group); err != nil {
		c.Logger.Error("what a desktop helper has frozen does not go on", "err", err)
	}
}

// Finder finds the file with the X server's key.
type Finder struct {
	User    string
	Display string // e.g. :0

	mu     sync.Mutex
	found  string
	looked time.Time
}

// XAuthority returns the file in the user's home, or the one that a running
// program of the user was told; "" when there is none.
func (f *Finder) XAuthority() string {
	u, err := account.Lookup(f.User)
	if err != nil {
		return ""
	}
	home := filepath.Join(u.Home, ".Xauthority")
	if _, err := os.Stat(home); err == nil {
		return home
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	const again = 5 * time.Second
	if _, err := os.Stat(f.found); err == nil || time.Since(f.looked) < again {
		return f.found
	}
	f.found, f.looked = search(u, f.Display), time.Now()
	return f.found
}

func search(u account.User, display string) string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		fi, err := os.Stat(d)
		if err != nil {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid != u.UID {
			continue
		}
		b, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil {
			continue
		}
		env := strings.Split(string(b), "\x00")
		if !slices.Contains(env, "DISPLAY="+display) && !slices.Contains(env, "DISPLAY="+display+".0") {
			continue
		}
		for _, kv := range env {
			if file, ok := strings.CutPrefix(kv, "XAUTHORITY="); ok && file != "" {
				return file
			}
		}
	}
	return ""
}
