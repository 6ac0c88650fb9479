package packages_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/session/packages"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for manager, tc := range map[string]struct {
		list      func(names ...string) packages.List
		good, bad []string
	}{
		"apt": {
			func(n ...string) packages.List { return packages.List{Apt: n} },
			[]string{"jq", "g++", "libc6:arm64", "jq=1.6-2.1+deb12u1", "a1/bookworm-backports", "python3.11", "x1=1:2.0~rc1"},
			[]string{"jq-", "jq=1.6-", "-y", "--reinstall", "j", "JQ", "jq;id", "jq jq", "./x.deb", "/x.deb", "https://x/y.deb", "?all", "jq*", "^jq$", "jq\nid", "ä", "../x", "task^", ""},
		},
		"pip": {
			func(n ...string) packages.List { return packages.List{Pip: n} },
			[]string{"flask", "Flask == 3.0", "a[b,c]>=1,!=1.5.*,<2", "zope.interface", "x===1!2+local", "a~=1.0"},
			[]string{"-r", "--index-url=http://x", "./x", "x@http://y", "x @ file:///y", "git+https://x", "x;os_name=='nt'", "x/y", "x==", "x.whl/", "[a]", "x]", "$(id)", "x==1,-r"},
		},
		"npm": {
			func(n ...string) packages.List { return packages.List{Npm: n} },
			[]string{"typescript", "typescript@5.4.2", "@types/node@^20", "x@latest", "JSONStream", "x@~1.2.0-rc.1"},
			[]string{"-g", "--prefix=/", "a/b", "./a", "~/x", "x@npm:y", "x@file:y", "x@github:y/z", "http://x", "x.tgz", "X.Tar.GZ", "@x", "@x/", "x@", "x@1 || 2", "x y"},
		},
		"cargo": {
			func(n ...string) packages.List { return packages.List{Cargo: n} },
			[]string{"ripgrep", "ripgrep@14.1.0", "a_b-c@1.0.0-rc.1+x"},
			[]string{"--git=x", "a/b", "a@", "a@-1", "a@^1", "1a", "a b"},
		},
		"gem": {
			func(n ...string) packages.List { return packages.List{Gem: n} },
			[]string{"rake", "rake@13.0.6", "ruby-lsp"},
			[]string{"--source", "rake@>1", "./x", "a/b", "a@", ".x"},
		},
		"go": {
			func(n ...string) packages.List { return packages.List{Go: n} },
			[]string{"golang.org/x/tools/cmd/stringer", "example.org/a/v2@v2.0.0", "example.org/~u/x@master", "example.org/x@v0.0.0-20200101000000-abcdefabcdef"},
			[]string{"./x", "../x", "x", "example.org/../x", "example.org//x", "-x.y/z", "example.org/x@", "example.org/x@a/b", "https://example.org/x", "example.org/x y", "example.org/..."},
		},
	} {
		if err := tc.list(tc.good...).Validate(); err != nil {
			t.Errorf("%s: %v", manager, err)
		}
		for _, name := range tc.bad {
			e, ok := errors.AsType[*packages.NameError](tc.list(name).Validate())
			if !ok || string(e.Manager) != manager || e.Name != name {
				t.Errorf("%s takes %q: %v", manager, name, e)
			}
		}
		if err := tc.list(strings.Repeat("a", packages.MaxName+1) + "\xff").Validate(); err == nil || len(err.Error()) > 2*packages.MaxName {
			t.Errorf("%s takes a long name: %v", manager, err)
		}
		if err := tc.list(make([]string, packages.MaxNames+1)...).Validate(); err == nil || !strings.Contains(err.Error(), "201 of them") {
			t.Errorf("%s takes many: %v", manager, err)
		}
	}
	if err := new(packages.Installer).Install(t.Context(), nil, packages.Request{Workspace: "/w", List: packages.List{Apt: []string{"--x"}}}); err == nil {
		t.Error("an installer takes what is no name")
	}
	for _, bad := range []string{"", "w", "/w'", "/a:b", "/$x"} {
		if err := new(packages.Installer).Install(t.Context(), nil, packages.Request{Workspace: bad}); err == nil {
			t.Errorf("workspace %q is taken", bad)
		}
	}
}

// FuzzNames: whatever is taken is one word without anything that a shell, an option
// or an address begins with.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"jq=1:2", "a[b]==1", "@a/b@^1", "golang.org/x/y@v1", "-y", "a;b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, l := range []packages.List{{Apt: []string{name}}, {Pip: []string{name}}, {Npm: []string{name}}, {Cargo: []string{name}}, {Gem: []string{name}}, {Go: []string{name}}} {
			if l.Validate() != nil {
				continue
			}
			n := l.Normal()
			for _, word := range append(append(append(append(append(n.Apt, n.Pip...), n.Npm...), n.Cargo...), n.Gem...), n.Go...) {
				if strings.ContainsAny(word, " \t\r\n\x00'\"\\$`;&|(){}") || strings.HasPrefix(word, "-") || strings.HasPrefix(word, ".") ||
					strings.HasPrefix(word, "/") || strings.Contains(word, "://") || strings.Contains(word, "/../") {
					t.Errorf("%q is taken", word)
				}
			}
			if n.Validate() != nil {
				t.Errorf("%q is taken, and its one spelling is not", name)
			}
		}
	})
}

// TestEnvironment: a shell finds what a workspace has, and a program that is wrapped
// gets its arguments as they are.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := m.request(everything)
	if _, _, err := m.install(r); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(r.Workspace, ".npm-global", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\nprintf '%s|' \"$@\" \"$VIRTUAL_ENV\" \"$NPM_CONFIG_PREFIX\" \"$NODE_PATH\" \"$CARGO_INSTALL_ROOT\" \"$GEM_HOME\" \"$GOBIN\" \"$PATH\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(bin, "mine"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	argv := packages.Wrap(r.Workspace, []string{"mine", "a b", "", "$x", "-c"})
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	want := "a b||$x|-c|W/.venv|W/.npm-global|W/.npm-global/lib/node_modules|W/.cargo|W/.gem|W/.go/bin|" +
		"W/.venv/bin:W/.npm-global/bin:W/.cargo/bin:W/.gem/bin:W/.go/bin:/usr/bin:/bin|"
	if got := strings.ReplaceAll(string(out), r.Workspace, "W"); got != want || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v: %s\nwant %s", err, got, want)
	}
	if err := os.WriteFile(filepath.Join(r.Workspace, ".deskfork", "x"), nil, 0o600); err != nil {
		t.Errorf("the marker's folder: %v", err)
	}
	// With packages of the system alone there is a file as well.
	r.List = packages.List{Apt: []string{"jq"}}
	if _, _, err := m.install(r); err != nil {
		t.Fatal(err)
	}
	argv = packages.Wrap(r.Workspace, []string{"true"})
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
