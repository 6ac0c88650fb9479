// Package postgres starts private PostgreSQL servers for tests, from Debian's
// package postgresql. They listen on a unix socket alone and leave nothing.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a server may take to answer.
const startLimit = time.Minute

// superuser is the role and the first database of every cluster.
const superuser = "postgres"

// Cluster is one private server. Its methods belong to the test's goroutine,
// Database to any.
type Cluster struct {
	bin  string // directory of the programs
	dir  string // data, and the socket
	cred *syscall.Credential
	cmd  *exec.Cmd
	log  *bytes.Buffer // of the present server; read after its end
	made atomic.Int64
}

// Start makes a cluster and its server, until the test ends.
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{bin: programs(tb)}
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // tb.TempDir is too long for a socket, and closed to the server's user
	if err != nil {
		tb.Fatal(err)
	}
	c.dir = dir
	tb.Cleanup(func() {
		c.stop(tb, syscall.SIGQUIT)
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	c.drop(tb)
	out, err := c.command(tb, "initdb", "--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--username="+superuser, c.data()).CombinedOutput()
	if err != nil {
		tb.Fatalf("make a cluster: %v\n%s", err, out)
	}
	c.run(tb)
	return c
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// programs finds where initdb and postgres lie.
func programs(tb testing.TB) string {
	tb.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, lerr := exec.LookPath("initdb"); lerr == nil {
		found = append(found, path)
	}
	if err != nil || len(found) == 0 {
		tb.Fatalf("no initdb: install Debian's package postgresql, as make deps does (%v)", err)
	}
	slices.Sort(found)
	return filepath.Dir(found[0])
}

// drop chooses another user when this one is root, whom the server refuses.
func (c *Cluster) drop(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		return
	}
	var u *user.User
	err := errors.New("no user")
	for _, name := range []string{superuser, "nobody"} {
		if u, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		tb.Fatalf("find a user for the server: %v", err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr, os.Chown(c.dir, int(uid), int(gid))); err != nil {
		tb.Fatal(err)
	}
	c.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (c *Cluster) command(tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(filepath.Join(c.bin, name), args...) //nolint:noctx // it ends in the test's cleanup, whose context is over by then
	cmd.Dir, cmd.Env = c.dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + c.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Setpgid: true}
	return cmd
}

// run starts the server and waits until it answers.
func (c *Cluster) run(tb testing.TB) {
	tb.Helper()
	c.log = &bytes.Buffer{}
	c.cmd = c.command(tb, "postgres", "-D", c.data(), "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=50",
		"-c", "shared_buffers=16MB", "-c", "autovacuum=off")
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		tb.Fatalf("start the server: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		probe := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_isready"), "-q", "-h", c.dir)
		if probe.Run() == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.stop(tb, syscall.SIGQUIT)
			tb.Fatalf("the server does not answer:\n%s", c.log)
		}
	}
}

// stop ends the server with a signal: SIGINT in order, SIGQUIT as in a crash.
func (c *Cluster) stop(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Errorf("stop the server: %v", err)
	}
	_ = c.cmd.Wait() // it says how it ended, which we know
	c.cmd = nil
}

// Crash ends the server as a crash does, without writing anything back, and
// starts it again.
func (c *Cluster) Crash(tb testing.TB) {
	tb.Helper()
	c.stop(tb, syscall.SIGQUIT)
	c.run(tb)
}

// Database makes an empty database and answers its URL.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", c.made.Add(1))
	out, err := c.command(tb, "createdb", "-h", c.dir, "-U", superuser, name).CombinedOutput()
	if err != nil {
		tb.Fatalf("make a database: %v\n%s", err, out)
	}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + name, RawQuery: url.Values{"host": {c.dir}}.Encode()}
	return u.String()
}
