//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session/packages"
)

// installs is packages.Exec on a desktop.
type installs struct {
	desk

	ran []string
}

// Exec implements packages.Exec.
func (i *installs) Exec(ctx context.Context, c packages.Command) (packages.Result, error) {
	i.ran = append(i.ran, strings.Join(c.Argv[:min(2, len(c.Argv))], " "))
	e := api.Exec{Argv: c.Argv, Env: c.Env, Dir: "/", TimeoutMS: c.Timeout.Milliseconds()}
	if c.System {
		e.User = "root"
	}
	res, err := i.Execs().Run(ctx, e)
	return packages.Result{ExitCode: res.ExitCode, TimedOut: res.TimedOut, Stdout: res.Stdout, Stderr: res.Stderr}, err
}

// TestPackagesByRealApt: from a repository in the guest, with real users and markers.
func TestPackagesByRealApt(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	d.root(t, `
set -e
mkdir -p /opt/repo/p/DEBIAN /opt/repo/p/usr/bin
cd /opt/repo
printf 'Package: deskfork-proof\nVersion: 1.2-3\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a proof\n' >p/DEBIAN/control
printf '#!/bin/sh\necho proven\n' >p/usr/bin/deskfork-proof
chmod 755 p/usr/bin/deskfork-proof
dpkg-deb --root-owner-group --build p proof.deb
{ cat p/DEBIAN/control; echo Filename: ./proof.deb; stat -c 'Size: %s' proof.deb; echo SHA256: $(sha256sum proof.deb | cut -d' ' -f1); } >Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/opt/repo ./' >/etc/apt/sources.list.d/repo.list`)
	x := &installs{desk: d}
	r := packages.Request{Machine: d.Info.ID, Image: d.Info.ImageDigest, Workspace: "/workspace", Scale: 8}
	install := func(l packages.List) (string, error) {
		x.ran, r.List = nil, l
		err := new(packages.Installer).Install(t.Context(), x, r)
		return strings.Join(x.ran, ","), err
	}
	proof := packages.List{Apt: []string{"deskfork-proof=1.2-3"}}
	if ran, err := install(proof); err != nil {
		t.Fatalf("%v after %s", err, ran)
	}
	const look = `. /workspace/.deskfork/packages.env && deskfork-proof && stat -c '%U %a' /workspace/.deskfork/packages.env /var/lib/deskfork/packages`
	if got, want := d.sh(t, look), "proven\nagent 644\nroot 644\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if ran, err := install(proof); err != nil || ran != "/bin/sh -c" {
		t.Errorf("warm: %v, ran %s", err, ran)
	}
	d.root(t, "rm -r /var/lib/deskfork && dpkg --purge deskfork-proof")
	if ran, err := install(proof); err != nil || !strings.Contains(ran, "apt-get install") || d.sh(t, "deskfork-proof") != "proven\n" {
		t.Errorf("restored: %v, ran %s", err, ran)
	}
	_, err := install(packages.List{Apt: []string{"no.such.package"}})
	if e, ok := errors.AsType[*packages.Error](err); !ok || e.ExitCode != 100 || !strings.Contains(e.Output, "Unable to locate package no.such.package") {
		t.Errorf("one that is not there: %v", err)
	}
}

// root runs a line of shell as root.
func (d desk) root(t *testing.T, line string) {
	t.Helper()
	res, err := d.Execs().Run(t.Context(), api.Exec{User: "root", Shell: line})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: %v, exit status %d: %s", line, err, res.ExitCode, res.Stderr)
	}
}
