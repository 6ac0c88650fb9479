package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// programs puts programs of shell where the world's installers are looked for. Each
// notes how it was called.
func (w *world) programs(lines map[string]string) (calls func() []string) {
	w.t.Helper()
	bin, log := filepath.Join(w.dir, "bin"), filepath.Join(w.dir, "calls")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		w.t.Fatal(err)
	}
	for name, line := range lines {
		text := "#!/bin/sh\necho \"${0##*/} $1\" >>" + log + "\n" + line + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestRunWithPackages: they are there before the command begins, which need not be in
// the image, and are not installed again where they are.
func TestRunWithPackages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := w.programs(map[string]string{
		"apt-get": `test "$DEBIAN_FRONTEND" = noninteractive`,
		"npm":     `mkdir -p "$4/bin" && printf '#!/bin/sh\necho "$1, $NPM_CONFIG_PREFIX, $MINE"\ncat\nexit 4\n' >"$4/bin/tool" && chmod +x "$4/bin/tool"`,
	})
	with := func(r *api.StartRun) {
		r.Packages = &api.Packages{Apt: []string{"jq"}, Npm: []string{"tool@1"}}
		r.Argv, r.Env, r.Input = []string{"tool", "a $b"}, map[string]string{"MINE": "yes"}, []byte("typed\n")
	}
	last, stdout, _, steps := w.ended(w.start("", with))
	if want := "a $b, " + w.dir + "/workspace/.npm-global, yes\ntyped\n"; stdout != want || last.ExitCode == nil || *last.ExitCode != 4 {
		t.Fatalf("%q, %+v, %v, want %q", stdout, last, last.Error, want)
	}
	if !strings.HasPrefix(last.Error.Detail, "tool ended with exit status 4") || !slices.Equal(last.Argv, []string{"tool", "a $b"}) {
		t.Errorf("%v, %q", last.Error, last.Argv)
	}
	if got := calls(); !slices.Equal(got, []string{"apt-get update", "apt-get install", "npm install"}) {
		t.Errorf("none was there: %q", got)
	}
	at := slices.Index(steps, "install apt packages")
	if at < 0 || !slices.Equal(steps[at-1:at+3], []string{"run harness", "install apt packages", "install npm packages", "run harness"}) {
		t.Errorf("steps %q", steps)
	}
	w.ended(w.start("", with))
	if got := calls(); !slices.Equal(got, []string{""}) {
		t.Errorf("all were there: %q", got)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "system")); err != nil { // as in a new machine
		t.Fatal(err)
	}
	w.ended(w.start("", with))
	if got := calls(); !slices.Equal(got, []string{"apt-get update", "apt-get install"}) {
		t.Errorf("the workspace's were there: %q", got)
	}
}

// TestPackagesThatFail: the run fails with what the installer said, before its command
// begins, and leaves no machine.
func TestPackagesThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.programs(map[string]string{"npm": `echo "npm ERR! 404" >&2; exit 3`})
	last := w.run(api.RunFailed, "", func(r *api.StartRun) { r.Packages = &api.Packages{Npm: []string{"none"}} })
	if e := last.Error; e.Code != api.CodePrecondition || last.ExitCode != nil || !strings.Contains(e.Detail, "install npm packages: exit status 3") || !strings.Contains(e.Detail, "npm ERR! 404") {
		t.Errorf("ended %+v, %v", last, e)
	}
	if _, err := os.Stat(filepath.Join(w.dir, w.said[last.ID])); err == nil {
		t.Error("the command began")
	}
	r := w.start("", func(r *api.StartRun) {
		w.programs(map[string]string{"npm": ": >" + w.dir + "/installing; sleep 1000"})
		r.Packages = &api.Packages{Npm: []string{"slow"}}
	})
	w.until("it installs", func() error { _, err := os.Stat(filepath.Join(w.dir, "installing")); return err })
	if _, err := w.Desk.Cancel(hosttest.Project, r.ID); err != nil {
		t.Fatal(err)
	}
	if last, _, _, _ := w.ended(r); last.State != api.RunLeaseLost || last.Error.Code != api.CodeCancelled {
		t.Errorf("cancelled: %+v, %v", last, last.Error)
	}
	w.machines(0)
	_, err := w.Desk.Start(t.Context(), hosttest.Project, api.StartRun{
		Workspace: "work", Image: "test", Argv: []string{"true"}, Packages: &api.Packages{Pip: []string{"--index-url=http://x"}, Go: []string{"x"}},
	}, "")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeInvalid || len(e.Errors) != 2 || e.Errors[0].Location != "body.packages.go" {
		t.Errorf("what is no name: %v", err)
	}
}
