package account_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestLookup(t *testing.T) {
	self, err := account.Lookup("")
	if err != nil || self.UID != uint32(os.Getuid()) || self.Home == "" || self.Shell == "" {
		t.Errorf("self %+v, %v", self, err)
	}
	root, err := account.Lookup("root")
	byID, errID := account.Lookup("0")
	if err != nil || errID != nil || root.UID != 0 || byID.Name != root.Name {
		t.Errorf("root %+v, %+v, %v, %v", root, byID, err, errID)
	}
	for _, name := range []string{"no-such-user", "4000000000", "-1", "root:x"} {
		if _, err := account.Lookup(name); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
			t.Errorf("%q: %v", name, err)
		}
	}
	var names account.Names
	if names.User(0) != "root" || names.User(4000000001) != "4000000001" || names.Group(0) == "" {
		t.Errorf("names %q %q", names.User(0), names.User(4000000001))
	}
}

// TestDo acts as nobody, which root can and no other user may.
func TestDo(t *testing.T) {
	nobody, err := account.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if err := nobody.Do(func() error { return nil }); !errors.Is(err, &guest.Error{Code: guest.CodePermission}) {
			t.Errorf("acting as another without being root: %v", err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // it is closed to others
		t.Fatal(err)
	}
	secret, drop := filepath.Join(dir, "secret"), filepath.Join(dir, "drop")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(secret, []byte("x"), 0o600), os.Mkdir(drop, 0o700), os.Chmod(drop, 0o777)); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for i := range 50 { // identities of threads do not leak into each other
		work.Go(func() {
			made := filepath.Join(drop, string(rune('a'+i)))
			err := nobody.Do(func() error {
				if _, err := os.ReadFile(secret); !errors.Is(err, os.ErrPermission) {
					t.Errorf("nobody reads root's file: %v", err)
				}
				return os.WriteFile(made, nil, 0o600)
			})
			fi, statErr := os.Stat(made)
			if err != nil || statErr != nil || fi.Sys().(*syscall.Stat_t).Uid != nobody.UID {
				t.Errorf("made %v, %v, %v", fi, err, statErr)
			}
		})
		work.Go(func() {
			if _, err := os.ReadFile(secret); err != nil {
				t.Errorf("root cannot read its own file: %v", err)
			}
		})
	}
	work.Wait()
}

func TestEnviron(t *testing.T) {
	u := account.User{Name: "agent", UID: 1000, Home: "/home/agent", Shell: "/bin/bash"}
	s := account.Session{User: "agent", Display: ":0", XAuthority: "/x"}
	env := account.Environ(u, s, map[string]string{"A": "1", "B": "1"}, map[string]string{"A": "2"})
	for _, want := range []string{
		"HOME=/home/agent", "USER=agent", "LOGNAME=agent", "SHELL=/bin/bash", "DISPLAY=:0", "XAUTHORITY=/x",
		"XDG_RUNTIME_DIR=/run/user/1000", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus", "A=2", "B=1",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %v", want, env)
		}
	}
	for _, kv := range account.Environ(account.User{Name: "other", UID: 1001}, s) {
		if kv == "DISPLAY=:0" {
			t.Error("another user was given the session's display")
		}
	}
}
