//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

var (
	//go:embed testdata/recorder.py
	recorderPy string
	//go:embed testdata/painter.py
	painterPy string
)

// until repeats check until it is content, at most for limit. It
// keeps a picture when it is not.
func (d desk) until(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil { // what ctx has cut short says nothing
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.picture(t)
			t.Fatalf("%s within %s: %v", what, limit, last)
		}
	}
}

// picture keeps what the screen shows beside a failure (go test -artifacts).
func (d desk) picture(t *testing.T) {
	t.Helper()
	s, err := d.Screenshot(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Logf("no picture of the failure: %v", err)
		return
	}
	file := filepath.Join(t.ArtifactDir(), "screen.png")
	if err := os.WriteFile(file, s.Data, 0o600); err != nil {
		t.Log(err)
		return
	}
	t.Logf("the screen is in %s", file)
}

// sh runs a shell command in the guest and returns its standard output.
func (d desk) sh(t *testing.T, command string) string {
	t.Helper()
	res := d.shell(t, command)
	if res.ExitCode != 0 {
		t.Fatalf("sh %q: exit %d: %s%s", command, res.ExitCode, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

func (d desk) shell(t *testing.T, command string) api.ExecResult {
	t.Helper()
	res, err := d.Execs().Run(t.Context(), api.Exec{Shell: command, TimeoutMS: 120_000})
	if err != nil {
		t.Fatalf("sh %q: %v", command, err)
	}
	return res
}

// folder makes a folder of the test's own in the guest.
func (d desk) folder(t *testing.T) string {
	t.Helper()
	dir := path.Join("/tmp/e2e", strings.ReplaceAll(t.Name(), "/", "_"))
	d.sh(t, "mkdir -p "+dir)
	t.Cleanup(func() {
		_ = d.Files().Remove(context.Background(), dir, true)
	})
	return dir
}

// put writes a file into the guest.
func (d desk) put(t *testing.T, file, content string) {
	t.Helper()
	if _, err := d.Files().Write(t.Context(), file, strings.NewReader(content), client.WriteOptions{Parents: true}); err != nil {
		t.Fatalf("write %s: %v", file, err)
	}
}

// get reads a file of the guest.
func (d desk) get(t *testing.T, file string) string {
	t.Helper()
	data, err := d.Files().Read(t.Context(), file)
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	return string(data)
}

// launch starts a program in the desktop session and ends it with the test.
func (d desk) launch(t *testing.T, argv ...string) int {
	t.Helper()
	pid, err := d.Launch(t.Context(), api.Launch{Argv: argv})
	if err != nil {
		t.Fatalf("launch %s: %v", argv, err)
	}
	t.Cleanup(func() {
		_, _ = d.Exec(context.Background(), "sh", "-c", fmt.Sprintf("kill -9 -%d || kill -9 %d; while kill -0 %d; do sleep 0.1; done", pid, pid, pid))
	})
	return pid
}

// window waits for a window that match accepts.
func (d desk) window(t *testing.T, what string, match func(api.Window) bool) api.Window {
	t.Helper()
	var found api.Window
	// A page of a cold browser takes two minutes on a slow emulated processor.
	d.until(t, 4*time.Minute, "window "+what, func(ctx context.Context) error {
		all, err := d.Windows().List(ctx)
		if err != nil {
			return err
		}
		for _, w := range all {
			if match(w) {
				found = w
				return nil
			}
		}
		return errors.New("not there")
	})
	return found
}

func ofClass(class string) func(api.Window) bool {
	return func(w api.Window) bool {
		return strings.Contains(strings.ToLower(w.Class), class) && w.Type == "normal"
	}
}

// focus gives a window the keyboard and waits until it has it.
func (d desk) focus(t *testing.T, w api.Window) {
	t.Helper()
	d.until(t, 30*time.Second, "focus on "+w.Title, func(ctx context.Context) error {
		if err := d.Windows().Focus(ctx, w.ID); err != nil {
			return err
		}
		all, err := d.Windows().List(ctx)
		if err != nil {
			return err
		}
		for _, x := range all {
			if x.ID == w.ID && x.Active {
				return nil
			}
		}
		return errors.New("not active")
	})
}

// still waits until the screen has come to rest.
func (d desk) still(t *testing.T) {
	t.Helper()
	if _, err := d.Screen().Wait(t.Context(), client.ScreenWait{For: "still", Timeout: time.Minute}); err != nil {
		t.Fatalf("wait for a still screen: %v", err)
	}
}

// shot takes and decodes a PNG.
func (d desk) shot(t *testing.T, opts client.ScreenshotOptions) (image.Image, *client.Screenshot) {
	t.Helper()
	s, err := d.Screen().Screenshot(t.Context(), opts)
	if err != nil {
		t.Fatalf("screenshot: %v", err)
	}
	img, err := png.Decode(bytes.NewReader(s.Data))
	if err != nil {
		t.Fatalf("decode screenshot: %v", err)
	}
	return img, s
}

// rgb is the colour of a pixel as RRGGBB.
func rgb(img image.Image, x, y int) string {
	r, g, b, _ := img.At(x, y).RGBA()
	return fmt.Sprintf("%02x%02x%02x", r>>8, g>>8, b>>8)
}

// code fails the test unless err is an api.Error of that code.
func code(t *testing.T, err error, want api.Code) {
	t.Helper()
	if e := problem(t, err); e.Code != want {
		t.Fatalf("code = %s (%+v), want %s", e.Code, *e, want)
	}
}

// problem is the api.Error that err has to be.
func problem(t *testing.T, err error) *api.Error {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want an api.Error", err)
	}
	return e
}

// is reports whether err is an api.Error of that code.
func is(err error, want api.Code) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == want
}

// command is one call of vmhost.
type command struct {
	stdin string
	env   []string // added to the tests' own
	args  []string
}

type result struct {
	out, errs string
	status    int
}

// run runs vmhost against a daemon as a user would.
func run(t *testing.T, d *harness.Daemon, c command) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), d.Bin, append([]string{"--data-dir", d.Data, "--address", d.URL()}, c.args...)...)
	var out, errs bytes.Buffer
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("vmhost %s: %v", c.args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// cli runs vmhost against the shared daemon and returns its standard output and
// status.
func cli(t *testing.T, stdin string, args ...string) (stdout string, status int) {
	t.Helper()
	res := run(t, host, command{stdin: stdin, args: args})
	if res.errs != "" {
		t.Logf("vmhost %s: %s", args, res.errs)
	}
	return res.out, res.status
}

func lastLine(text string) []byte {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return []byte(lines[len(lines)-1])
}
