//go:build linux

package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/guesthelper/launch"
	"github.com/deskfork/deskfork/pkg/guest"
)

func script(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "show", `echo "$1 $FOO $BAR $(pwd)" > out`)
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch.New([]string{"PATH=" + dir + ":/usr/bin:/bin", "FOO=session", "BAR=session"}, dir)
	got, err := l.Launch(t.Context(), guest.Launch{Argv: []string{"show", "a b"}, Env: map[string]string{"FOO": "asked"}})
	if err != nil || got.PID == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	l.Wait()
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if want := "a b asked session " + dir + "\n"; err != nil || string(out) != want {
		t.Errorf("it saw %q, want %q", out, want)
	}
	for name, c := range map[string]struct {
		l    guest.Launch
		want guest.Code
	}{
		"no program":     {guest.Launch{Argv: []string{"nonesuch"}}, guest.CodeNotFound},
		"no file":        {guest.Launch{Argv: []string{"./nonesuch"}}, guest.CodeNotFound},
		"not executable": {guest.Launch{Argv: []string{"./plain"}}, guest.CodePermission},
		"no directory":   {guest.Launch{Argv: []string{"show"}, Dir: dir + "/plain"}, guest.CodeNotFound},
		"nothing":        {guest.Launch{}, guest.CodeInvalid},
		"both":           {guest.Launch{Argv: []string{"show"}, URL: "http://x/"}, guest.CodeInvalid},
		"an option":      {guest.Launch{URL: "--version"}, guest.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Launch(t.Context(), c.l); !errors.Is(err, &guest.Error{Code: c.want}) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	l := launch.New([]string{"PATH=" + dir}, dir)
	open := func() error {
		_, err := l.Launch(t.Context(), guest.Launch{URL: "http://localhost/?a=b"})
		l.Wait()
		return err
	}
	if err := open(); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		t.Errorf("without any opener: %v", err)
	}
	script(t, dir, "xdg-open", "exit 3") // finds no browser
	if err := open(); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		t.Errorf("with one that fails: %v", err)
	}
	script(t, dir, "chromium", `echo "$1" > opened`)
	if err := open(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "opened")); err != nil || string(got) != "http://localhost/?a=b\n" {
		t.Errorf("opened %q, %v", got, err)
	}
}
