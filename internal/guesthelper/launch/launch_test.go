//go:build linux

package launch_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

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
	open := func() (err error) {
		// In a bubble no opener takes long: its end is waited for with the clock at rest.
		synctest.Test(t, func(t *testing.T) {
			l := launch.New([]string{"PATH=" + dir}, dir)
			_, err = l.Launch(t.Context(), guest.Launch{URL: "http://localhost/?a=b"})
			l.Wait()
		})
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

// TestOpenURLInTheBrowserThatRuns: it gets pages alone, and none when the user has
// chosen another program for them.
func TestOpenURLInTheBrowserThatRuns(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	profile, socket := filepath.Join(home, ".config", "chromium"), filepath.Join(dir, "socket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(io.Discard, c)   //nolint:errcheck // a browser that listens
			io.WriteString(c, "ACK") //nolint:errcheck // and answers
			c.Close()
		}
	}()
	if err := errors.Join(os.MkdirAll(profile, 0o700), os.Symlink(socket, filepath.Join(profile, "SingletonSocket")),
		os.Symlink("1", filepath.Join(profile, "SingletonCookie")), os.Symlink("1", filepath.Join(dir, "SingletonCookie"))); err != nil {
		t.Fatal(err)
	}
	script(t, dir, "xdg-open", "exit 0")
	launcher := launch.New([]string{"PATH=" + dir}, home)
	handed := func(raw string) bool {
		t.Helper()
		done, err := launcher.Launch(t.Context(), guest.Launch{URL: raw})
		if err != nil {
			t.Fatal(err)
		}
		launcher.Wait()
		return done.PID == os.Getpid()
	}
	if !handed("https://a.example/") || !handed("file:///tmp/page.html") || handed("mailto:a@a.example") {
		t.Error("the browser that runs gets pages, and pages alone")
	}
	for file, text := range map[string]string{
		"mimeapps.list": "[Default Applications]\nx-scheme-handler/https=other.desktop\n", "xfce4/helpers.rc": "WebBrowser=firefox\n",
	} {
		path := filepath.Join(home, ".config", file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if handed("https://a.example/") {
			t.Errorf("%s names another browser, and Chromium got the page", file)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
