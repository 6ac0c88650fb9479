package runs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// door is a client of a server over a host in memory that runs commands.
func door(t *testing.T) (c *client.Client, dir string) {
	t.Helper()
	f := hosttest.New(t)
	dir = t.TempDir()
	work, _ := f.Work(dir)
	s, err := server.New(server.Config{Host: f.Host, Sessions: work, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s)
	web.Config = server.HTTP(s, slog.New(slog.DiscardHandler))
	web.Start()
	t.Cleanup(web.Close)
	path, err := f.Host.FirstToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(web.URL, client.WithTokenFile(path)); err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func request(line string) api.StartRun {
	return api.StartRun{Workspace: "work", Image: "test", WorkspaceMiB: 64, Argv: []string{"sh", "-c", line}}
}

// TestRunRoutes takes a run through its life with the real client.
func TestRunRoutes(t *testing.T) {
	t.Parallel()
	c, dir := door(t)
	req := request("echo out; echo err >&2; echo made > '" + filepath.Join(dir, "outputs", "a b") + "'")
	req.Outputs = true
	r, err := c.Runs().Start(t.Context(), req)
	if err != nil || r.State != api.RunRunning {
		t.Fatalf("start: %+v, %v", r, err)
	}
	var out, stderr string
	var steps []string
	var last *api.Run
	for e, err := range c.Runs().Events(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case api.RunStdout:
			out += string(e.Data)
		case api.RunStderr:
			stderr += string(e.Data)
		case api.RunStep:
			steps = append(steps, e.Step)
		case api.RunEnd:
			last = e.Run
		case api.RunLost:
			t.Error(e.Step)
		}
	}
	if out != "out\n" || stderr != "err\n" || last == nil || last.State != api.RunCompleted || len(steps) < 8 {
		t.Fatalf("%q, %q, %+v after %v", out, stderr, last, steps)
	}
	for e, err := range c.Runs().Events(t.Context(), r.ID) { // again, from the beginning
		if err != nil || e.Seq != 1 {
			t.Errorf("again: %+v, %v", e, err)
		}
		break
	}
	if now, err := c.Runs().Get(t.Context(), r.ID); err != nil || now.Revision != 1 {
		t.Errorf("get: %+v, %v", now, err)
	}
	if list, err := c.Runs().List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if files, err := c.Runs().Outputs(t.Context(), r.ID); err != nil || len(files) != 1 || files[0].Path != "a b" || files[0].Size != 5 {
		t.Errorf("outputs: %+v, %v", files, err)
	}
	var got bytes.Buffer
	if err := c.Runs().Output(t.Context(), r.ID, "a b", &got); err != nil || got.String() != "made\n" {
		t.Errorf("output: %q, %v", got.String(), err)
	}
	if now, err := c.Runs().Cancel(t.Context(), r.ID); err != nil || now.State != api.RunCompleted {
		t.Errorf("cancel after the end: %+v, %v", now, err)
	}
}

// TestRunIsRefused before anything is begun.
func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	c, _ := door(t)
	for name, tc := range map[string]struct {
		change func(*api.StartRun)
		code   api.Code
	}{
		"no image":      {func(r *api.StartRun) { r.Image = "nope" }, api.CodeNotFound},
		"no command":    {func(r *api.StartRun) { r.Argv = nil }, api.CodeInvalid},
		"empty command": {func(r *api.StartRun) { r.Argv = []string{""} }, api.CodeInvalid},
		"bad name":      {func(r *api.StartRun) { r.Workspace = "../x" }, api.CodeInvalid},
		"bad keep":      {func(r *api.StartRun) { r.Keep = "all" }, api.CodeInvalid},
		"relative dir":  {func(r *api.StartRun) { r.Dir = "x" }, api.CodeInvalid},
		"bad env":       {func(r *api.StartRun) { r.Env = map[string]string{"1": ""} }, api.CodeInvalid},
		"too much":      {func(r *api.StartRun) { r.Input = make([]byte, 8<<20) }, api.CodeTooLarge},
	} {
		req := request("true")
		tc.change(&req)
		if r, err := c.Runs().Start(t.Context(), req); !errors.Is(err, &api.Error{Code: tc.code}) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, err := range c.Runs().Events(t.Context(), "nope") {
		if !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Errorf("events of none: %v", err)
		}
	}
	if list, err := c.Runs().List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
}
