package packages_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/session/packages"
)

// machine runs shell and rm for real, on folders of the test, and notes everything
// else.
type machine struct {
	t       *testing.T
	dir     string          // workspace and system below it
	missing map[string]bool // programs that are not there
	fails   map[string]packages.Result
	refuses error                                         // of installers
	hook    func(ctx context.Context, c packages.Command) // before each

	mu    sync.Mutex
	calls int      // guarded by mu
	ran   []string // guarded by mu; installers, with their arguments
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), missing: map[string]bool{}, fails: map[string]packages.Result{}}
	if err := os.Mkdir(filepath.Join(m.dir, "workspace"), 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) request(l packages.List) packages.Request {
	return packages.Request{
		Machine: m.dir, Image: "sha256:1", List: l, Workspace: filepath.Join(m.dir, "workspace"), MachineDir: filepath.Join(m.dir, "system"),
	}
}

// Exec implements packages.Exec.
func (m *machine) Exec(ctx context.Context, c packages.Command) (packages.Result, error) {
	if m.hook != nil {
		m.hook(ctx, c)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if c.Timeout <= 0 {
		m.t.Errorf("%q has no deadline", c.Argv)
	}
	switch script := c.Argv[min(2, len(c.Argv)-1)]; {
	case c.Argv[0] == "/bin/sh" && (strings.Contains(script, "command -v ") || strings.Contains(script, "import ensurepip")):
		for name := range m.missing {
			if strings.Contains(script, name) {
				return packages.Result{ExitCode: 127}, nil
			}
		}
		return packages.Result{}, nil
	case c.Argv[0] == "/bin/sh", c.Argv[0] == "rm":
		cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
		cmd.Dir = "/"
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			return packages.Result{}, err
		}
		return packages.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out, Stderr: []byte(stderr.String())}, nil
	}
	if m.refuses != nil {
		return packages.Result{}, m.refuses
	}
	words := slices.DeleteFunc(slices.Clone(c.Argv), func(w string) bool {
		return strings.HasPrefix(w, "-") && w != "--" || strings.Contains(w, "::")
	})
	line := strings.ReplaceAll(strings.Join(words, " "), m.dir, "")
	if c.System {
		line = "root: " + line
	}
	m.ran = append(m.ran, line)
	for part, r := range m.fails {
		if strings.Contains(line, part) {
			return r, nil
		}
	}
	return packages.Result{}, nil
}

// install installs and says what ran.
func (m *machine) install(r packages.Request) (ran []string, calls int, err error) {
	m.t.Helper()
	m.ran, m.calls = nil, 0
	err = new(packages.Installer).Install(m.t.Context(), m, r)
	return m.ran, m.calls, err
}

func (m *machine) remove(part string) {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, part)); err != nil {
		m.t.Fatal(err)
	}
}

var everything = packages.List{
	Apt: []string{"jq", "g++=4:12.2.0-3", "jq"}, Pip: []string{" Flask_Login[a] == 1.0 ", "requests>=2,<3"}, Npm: []string{"@types/node@^20", "left-pad"},
	Cargo: []string{"ripgrep@14.1.0", "fd-find"}, Gem: []string{"rake@13.0.6", "rack"}, Go: []string{"golang.org/x/tools/cmd/stringer", "example.org/x@v1.0.0"},
}

var (
	system = []string{
		"root: apt-get update", "root: apt-get install -- g++=4:12.2.0-3 jq",
	}
	language = []string{
		"python3 venv /workspace/.venv", "/workspace/.venv/bin/python3 pip install off -- flask-login[a]==1.0 requests>=2,<3",
		"npm install /workspace/.npm-global -- @types/node@^20 left-pad",
		"cargo install /workspace/.cargo -- fd-find", "cargo install /workspace/.cargo 14.1.0 -- ripgrep",
		"gem install /workspace/.gem /workspace/.gem/bin rack", "gem install /workspace/.gem /workspace/.gem/bin 13.0.6 rake",
		"go install -- example.org/x@v1.0.0", "go install -- golang.org/x/tools/cmd/stringer@latest",
	}
)

func shortened(all []string) []string {
	for i, line := range all {
		line = strings.ReplaceAll(line, " DPkg::Lock::Timeout=120", "")
		all[i] = strings.ReplaceAll(line, " APT::Cmd::Pattern-Only=true", "")
	}
	return all
}

// TestMarkers: a machine that goes on installs nothing, a restored workspace in a new
// machine packages of the system, anything else everything that is missing.
func TestMarkers(t *testing.T) {
	t.Parallel()
	turned := everything
	turned.Apt, turned.Npm = []string{"g++=4:12.2.0-3", " jq"}, []string{"left-pad", "@types/node@^20"}
	more := everything
	more.Apt = append([]string{"curl"}, everything.Apt...)
	less := everything
	less.Gem = nil
	for name, tc := range map[string]struct {
		change func(m *machine, r *packages.Request)
		want   []string
	}{
		"none":                                {func(m *machine, _ *packages.Request) { m.remove("system"); m.remove("workspace/.deskfork") }, slices.Concat(system, language)},
		"warm":                                {func(*machine, *packages.Request) {}, nil},
		"warm, turned":                        {func(_ *machine, r *packages.Request) { r.List = turned }, nil},
		"restored":                            {func(m *machine, _ *packages.Request) { m.remove("system") }, system},
		"new workspace":                       {func(m *machine, _ *packages.Request) { m.remove("workspace/.deskfork") }, language},
		"another image":                       {func(_ *machine, r *packages.Request) { r.Image = "sha256:2" }, slices.Concat(system, language)},
		"more apt":                            {func(_ *machine, r *packages.Request) { r.List = more }, []string{system[0], "root: apt-get install -- curl g++=4:12.2.0-3 jq"}},
		"less":                                {func(_ *machine, r *packages.Request) { r.List = less }, slices.DeleteFunc(slices.Concat(system, language), func(s string) bool { return strings.HasPrefix(s, "gem") })},
		"restored, npm is not in the machine": {func(m *machine, _ *packages.Request) { m.remove("system"); m.missing["npm"] = true }, []string{system[0], system[1] + " npm"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			r := m.request(everything)
			if _, _, err := m.install(r); err != nil {
				t.Fatal(err)
			}
			tc.change(m, &r)
			for _, want := range [][]string{tc.want, nil} { // the second time it is warm
				ran, calls, err := m.install(r)
				if err != nil || !slices.Equal(shortened(ran), want) {
					t.Errorf("%v, ran\n%s\nwant\n%s", err, strings.Join(ran, "\n"), strings.Join(want, "\n"))
				}
				if want == nil && calls != 1 {
					t.Errorf("a warm machine ran %d programs", calls)
				}
			}
		})
	}
}

// TestTools: what installs languages is installed where it is missing, and only what
// is asked for.
func TestTools(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, name := range []string{"ensurepip", "npm", "cargo", "gem", "-v go"} {
		m.missing[name] = true
	}
	var steps []string
	r := m.request(everything)
	r.Progress = func(s string) { steps = append(steps, s) }
	ran, _, err := m.install(r)
	if want := "root: apt-get install -- g++=4:12.2.0-3 jq python3-venv npm cargo ruby golang-go"; err != nil || shortened(ran)[1] != want {
		t.Errorf("%v, ran %q, want %s", err, ran, want)
	}
	if want := "install apt packages,install pip packages,install npm packages,install cargo packages,install gem packages,install go packages"; strings.Join(steps, ",") != want {
		t.Errorf("steps %q", steps)
	}
	r.List = packages.List{Pip: []string{"flask"}}
	r.Image = "sha256:3"
	if ran, _, err = m.install(r); err != nil || len(ran) != 4 || !strings.HasSuffix(ran[1], "-- python3-venv") {
		t.Errorf("%v, ran %q", err, ran)
	}
	delete(m.missing, "ensurepip")
	r.Image = "sha256:4"
	if ran, _, err = m.install(r); err != nil || len(ran) != 2 || !strings.HasPrefix(ran[0], "python3") {
		t.Errorf("with its program there: %v, ran %q", err, ran)
	}
}

// TestFailedInstaller: the error has the end of its output, and the next call begins
// what failed anew.
func TestFailedInstaller(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := m.request(everything)
	long := strings.Repeat("ä", packages.TailBytes) + "\x00 no such gem"
	m.fails["gem install"] = packages.Result{ExitCode: 2, Stdout: []byte("out"), Stderr: []byte(long)}
	_, _, err := m.install(r)
	e, ok := errors.AsType[*packages.Error](err)
	if !ok || e.Manager != packages.Gem || e.ExitCode != 2 || !strings.HasSuffix(e.Output, " no such gem") || len(e.Output) > packages.TailBytes+8 ||
		!strings.Contains(err.Error(), "install gem packages: exit status 2:\n") {
		t.Errorf("%.200v", err)
	}
	delete(m.fails, "gem install")
	if ran, _, err := m.install(r); err != nil || !slices.Equal(ran, language) {
		t.Errorf("again: %v, ran %q", err, ran)
	}
	// A list that failed must not leave the marker of an older one.
	other := r
	other.List.Npm = []string{"other"}
	m.fails["npm install"] = packages.Result{ExitCode: 137, TimedOut: true}
	if _, _, err := m.install(other); err == nil || !strings.Contains(err.Error(), "install npm packages: not done in time") {
		t.Errorf("timed out: %v", err)
	}
	delete(m.fails, "npm install")
	if ran, _, err := m.install(r); err != nil || !slices.Equal(shortened(ran), slices.Concat(system, language)) {
		t.Errorf("the older list: %v, ran %q", err, ran)
	}
	m.remove("system")
	m.fails["apt-get update"] = packages.Result{ExitCode: 100, Stdout: []byte("Err:1 no route"), Stderr: []byte("E: failed")}
	if ran, _, err := m.install(r); err == nil || len(ran) != 1 || !strings.Contains(err.Error(), "Err:1 no route\nE: failed") {
		t.Errorf("apt: %v, ran %q", err, ran)
	}
	m.refuses = errors.New("the link is gone")
	if _, _, err := m.install(r); !errors.Is(err, m.refuses) || !strings.Contains(err.Error(), "install apt packages") {
		t.Errorf("refused: %v", err)
	}
	m.refuses = nil
	m.remove("workspace")
	if err := os.WriteFile(filepath.Join(m.dir, "workspace"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	delete(m.fails, "apt-get update")
	if _, _, err := m.install(r); err == nil || !strings.Contains(err.Error(), "packages.env") {
		t.Errorf("no place for the marker: %v", err)
	}
}

// TestOneAtATime: of calls for one machine one installs, and the others find it done.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := m.request(everything)
	var (
		i     packages.Installer
		calls sync.WaitGroup
	)
	for range 8 {
		calls.Go(func() {
			if err := i.Install(t.Context(), m, r); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if !slices.Equal(shortened(m.ran), slices.Concat(system, language)) {
		t.Errorf("ran %q", m.ran)
	}
	// One that waits goes away when it is told to, and other machines do not wait.
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held); <-release })
	m.hook = func(context.Context, packages.Command) { hold() }
	calls.Go(func() { _ = i.Install(t.Context(), m, r) })
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := i.Install(ctx, m, r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", err)
	}
	other := newMachine(t)
	if err := i.Install(t.Context(), other, other.request(packages.List{})); err != nil {
		t.Error(err)
	}
	close(release)
	calls.Wait()
}

// stuck installs for ever.
type stuck struct{}

func (stuck) Exec(ctx context.Context, c packages.Command) (packages.Result, error) {
	if strings.HasPrefix(c.Argv[0], "/bin/sh") || c.Argv[0] == "rm" {
		return packages.Result{}, nil
	}
	<-ctx.Done()
	return packages.Result{}, fmt.Errorf("killed: %w", context.Cause(ctx))
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := packages.Request{Machine: "m", Workspace: "/workspace", List: packages.List{Apt: []string{"jq"}}, Scale: 3}
		err := new(packages.Installer).Install(t.Context(), stuck{}, r)
		if e, ok := errors.AsType[*packages.Error](err); !ok || !e.TimedOut || time.Since(began) != 3*packages.FullLimit {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("called off"))
		defer cancel()
		if err := new(packages.Installer).Install(ctx, stuck{}, r); err == nil || !strings.Contains(err.Error(), "called off") {
			t.Errorf("called off: %v", err)
		}
	})
}
