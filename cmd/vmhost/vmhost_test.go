package main

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
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
