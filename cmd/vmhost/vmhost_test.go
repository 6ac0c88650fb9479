package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/image/build"
)

func parseServe(t *testing.T, args ...string) (serveConfig, error) {
	t.Helper()
	var f serveFlags
	fl := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.add(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f.parse("/data", io.Discard)
}

func TestServeFlags(t *testing.T) {
	c, err := parseServe(t, "--egress-allow", "10.1.0.0/16,192.168.1.7", "--egress-deny", "203.0.113.0/24",
		"--external-url", "https://desks.example", "--trusted-proxy", "127.0.0.1", "--qemu-user", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.168.1.7/32")}
	if diff := cmp.Diff(want, c.egress.Allow, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if c.external.Host != "desks.example" || len(c.proxies) != 1 || len(c.egress.Deny) != 1 || c.dataDir != "/data" {
		t.Errorf("%+v", c)
	}
	for _, tc := range []struct{ args, err string }{
		{"--listen nowhere", "--listen"},
		{"--tls-cert x", "belong together"},
		{"--accel magic", "none of auto, kvm and tcg"},
		{"--egress-allow ten", "--egress-allow"},
		{"--log-level loud", "none of debug"},
		{"--log-format xml", "neither text nor json"},
		{"--dns 9.9.9.9", "--dns"},
		{"--stage-limit drown=2m", "none of machine"},
		{"--stage-limit drawn=2", "want a time"},
		{"--stage-limit link=0s", "want a time"},
		{"--qemu-user no-such-user-here", "--qemu-user"},
		{"--listen x --accel y", "--accel"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			_, err := parseServe(t, strings.Fields(tc.args)...)
			if !errors.Is(err, &api.Error{Code: api.CodeInvalid}) || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLock: a data directory has one daemon.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	release, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock(dir)
	var p *api.Error
	if !errors.As(err, &p) || p.Code != api.CodeConflict || !strings.Contains(err.Error(), "pid ") || !strings.Contains(err.Error(), dir) {
		t.Errorf("second daemon: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := lock(dir)
	if err != nil {
		t.Fatalf("after the end of the first: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if _, err := lock(filepath.Join(dir, "none")); err == nil {
		t.Error("locked a directory that is not there")
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	tell := progress(&out, "/data/build.log")
	tell(build.Progress{Stage: build.StageBootstrap, Expected: 2 * time.Minute})
	tell(build.Progress{Stage: build.StageBootstrap, Done: true, Elapsed: 90 * time.Second})
	want := "building in 6 stages, about 3 min; all that the tools say is in /data/build.log\n" +
		"[1/6] bootstrap  about 2.0 min\n" +
		"[1/6] bootstrap  done in 1.5 min\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLazyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	l := &lazyFile{name: name}
	if err := l.Close(); err != nil || exists(name) {
		t.Errorf("a log that nobody wrote: %v", err)
	}
	if _, err := l.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "x" {
		t.Errorf("%q, %v", raw, err)
	}
}

// TestCommands: what this package adds to the command line.
func TestCommands(t *testing.T) {
	for _, tc := range []struct {
		line   string
		status int
		out    string // part
		err    string // part
	}{
		{line: "serve --help", out: "--egress-deny"},
		{line: "image build --help", out: "--guest-helper"},
		{line: "serve --accel magic", status: 2, err: "none of auto, kvm and tcg"},
		{line: "serve extra", status: 2, err: "extra"},
		{line: "image build /does/not/exist", status: 2, err: "/does/not/exist"},
		{line: "image build", status: 2, err: "arg"},
	} {
		t.Run(tc.line, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := cli.Run(t.Context(), cli.Config{
				In: strings.NewReader(""), Out: &out, Err: &errs, DataDir: t.TempDir(), Serve: serveCmd, Build: buildCmd,
			}, strings.Fields(tc.line))
			if status != tc.status || !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) {
				t.Errorf("status %d, output %q, errors %q", status, &out, &errs)
			}
		})
	}
}

func TestRuntimeDir(t *testing.T) {
	want := func(ordinary string) string {
		if os.Geteuid() == 0 {
			return "/run/deskfork"
		}
		return ordinary
	}
	session := t.TempDir() // its path is long enough to be none for sockets, which is not looked at
	long := "/home/" + strings.Repeat("a", 80)
	for _, tt := range []struct{ session, data, dir string }{
		{session, "/home/a/data", "/home/a/data/run"}, // the session ends before the machines
		{"", "/home/a/data", "/home/a/data/run"},
		{session, long, session + "/deskfork"},
		{"", long, long + "/run"}, // serve says that it is too long
	} {
		t.Setenv("XDG_RUNTIME_DIR", tt.session)
		if got := runtimeDir(tt.data); got != want(tt.dir) {
			t.Errorf("session %q, data %q: %q, want %q", tt.session, tt.data, got, want(tt.dir))
		}
	}
	if err := os.MkdirAll(filepath.Join(session, "deskfork", "vm", "i1"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", session)
	if got := runtimeDir("/home/a/data"); got != want(session+"/deskfork") {
		t.Errorf("with machines of before: %q", got)
	}
	if f := (serveFlags{runtimeDir: "/x"}); f.socketDir("/home/a/data") != "/x" {
		t.Error("what was asked for does not win")
	}
}

// TestTakeDirs: directories of ours are made, closed to others and have one owner.
// Root's let QEMU's user pass, whatever made them, and whatever the shell forbids.
func TestTakeDirs(t *testing.T) {
	base := t.TempDir()
	closed := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		closed = 0o711
	}
	for _, tt := range []struct {
		name     string
		entry    string
		was, now os.FileMode
	}{
		{"empty", "", 0o777, 0o711},
		{"ours", "deskfork.db", 0o755, 0o711},
		{"closed further", "images", 0o700, closed},
		{"somebody's own", "letters", 0o755, 0o755},
	} {
		data := filepath.Join(base, tt.name)
		if err := errors.Join(os.Mkdir(data, 0o700), os.Chmod(data, tt.was)); err != nil {
			t.Fatal(err)
		}
		if tt.entry != "" {
			if err := os.WriteFile(filepath.Join(data, tt.entry), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		release, err := takeDirs(data, data)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if info, err := os.Stat(data); err != nil || info.Mode().Perm() != tt.now {
			t.Errorf("%s: mode %v, %v", tt.name, info.Mode(), err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	run := filepath.Join(base, "run")
	release, err := takeDirs(filepath.Join(base, "new"), run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeDirs(filepath.Join(base, "other"), run); !errors.Is(err, &api.Error{Code: api.CodeConflict}) || !strings.Contains(err.Error(), run) {
		t.Errorf("two daemons with the sockets in one directory: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	again, err := takeDirs(filepath.Join(base, "other"), run)
	if err != nil {
		t.Fatalf("what failed holds on to its first directory: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

// TestPublish: commands on this machine find the server by the data directory.
func TestPublish(t *testing.T) {
	external, err := url.Parse("https://desks.example")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	for _, tt := range []struct {
		cfg  serveConfig
		at   net.Addr
		want string
	}{
		{serveConfig{}, at("127.0.0.1:7718"), "http://127.0.0.1:7718"},
		{serveConfig{external: external}, at("0.0.0.0:80"), "http://127.0.0.1:80"},
		{serveConfig{}, at("[::]:7717"), "http://127.0.0.1:7717"},
		{serveConfig{serveFlags: serveFlags{tlsCert: "c"}}, at("10.0.0.1:443"), "https://10.0.0.1:443"},
		{serveConfig{serveFlags: serveFlags{tlsCert: "c"}, external: external}, at("10.0.0.1:443"), "https://desks.example"},
	} {
		if got := tt.cfg.reachable(tt.at); got != tt.want {
			t.Errorf("%s is reached at %s, want %s", tt.at, got, tt.want)
		}
	}
	dir := t.TempDir()
	remove, err := publish(dir, "http://127.0.0.1:7718")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, cli.AddressName)
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "http://127.0.0.1:7718\n" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := errors.Join(remove(), remove()); err != nil || exists(name) {
		t.Errorf("at the end: %v", err)
	}
}

// TestInPlace: a data directory that was moved is refused when something in it
// names files by their old paths.
func TestInPlace(t *testing.T) {
	base := t.TempDir()
	old, moved := filepath.Join(base, "old"), filepath.Join(base, "moved")
	if err := os.MkdirAll(filepath.Join(old, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	step := func(what string, dir string, refused bool) {
		t.Helper()
		err := inPlace(dir)
		var p *api.Error
		if refused != errors.As(err, &p) || (!refused && err != nil) {
			t.Errorf("%s: %v", what, err)
		}
		if refused && p != nil && (p.Code != api.CodePrecondition || !strings.Contains(p.Hint, "ln -s "+dir)) {
			t.Errorf("%s: %+v", what, p)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	step("first start", old, false)
	step("second start", old, false)
	move(old, moved)
	step("moved with images alone", moved, false)
	if err := os.MkdirAll(filepath.Join(moved, "templates", "t1"), 0o700); err != nil {
		t.Fatal(err)
	}
	step("with a snapshot", moved, false)
	move(moved, old)
	step("moved with a snapshot", old, true)
	step("once more", old, true)
	if err := os.Symlink(old, moved); err != nil {
		t.Fatal(err)
	}
	step("with a link at the old place", old, false)
	step("by the link", moved, false)
	if err := os.Remove(moved); err != nil {
		t.Fatal(err)
	}
	step("without the link again", old, true)
	move(old, moved)
	step("moved back", moved, false)
}
