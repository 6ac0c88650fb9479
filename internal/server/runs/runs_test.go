package runs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// door is a client of a server over a host in memory that runs commands.
func door(t *testing.T) (c *client.Client, dir string) {
	t.Helper()
	c, dir, _ = doorAndToken(t)
	return c, dir
}

func doorAndToken(t *testing.T) (c *client.Client, dir, token string) {
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
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir, strings.TrimSpace(string(secret))
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
	sets, err := c.Runs().Published(t.Context(), "work")
	if err != nil || len(sets) != 1 || sets[0].ID != last.Outputs.ID || !sets[0].Newest {
		t.Fatalf("published: %+v, %v", sets, err)
	}
	if files, err := c.Runs().PublishedFiles(t.Context(), "work", sets[0].ID); err != nil || len(files) != 1 || files[0].Path != "a b" {
		t.Errorf("published files: %+v, %v", files, err)
	}
	got.Reset()
	if err := c.Runs().PublishedFile(t.Context(), "work", sets[0].ID, "a b", &got); err != nil || got.String() != "made\n" {
		t.Errorf("published file: %q, %v", got.String(), err)
	}
	for _, name := range []string{"", "none"} {
		if err := c.Runs().PublishedFile(t.Context(), "work", sets[0].ID, name, &got); err == nil {
			t.Errorf("file %q is there", name)
		}
	}
	if p, err := c.Runs().Prune(t.Context(), api.PruneOutputs{Last: 1, DryRun: true}); err != nil || p.Kept != 1 || p.Dropped == nil || len(p.Dropped) != 0 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	if now, err := c.Runs().Cancel(t.Context(), r.ID); err != nil || now.State != api.RunCompleted {
		t.Errorf("cancel after the end: %+v, %v", now, err)
	}
}

const hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// TestInputRoute: what was uploaded is there for a run, and what is not what was said
// is not kept.
func TestInputRoute(t *testing.T) {
	t.Parallel()
	c, dir, token := doorAndToken(t)
	in, err := c.Runs().Upload(t.Context(), strings.NewReader("hello"), 5)
	if err != nil || in.Hash != hello || in.Size != 5 || in.ID == "" || in.Expires.IsZero() {
		t.Fatalf("upload: %+v, %v", in, err)
	}
	if cut, err := c.Runs().Upload(t.Context(), strings.NewReader("hello"), 6); err == nil {
		t.Errorf("one byte less than was said: %+v", cut)
	}
	for hash, want := range map[string]int{hello: http.StatusCreated, hello[:70] + "5": http.StatusUnprocessableEntity, "md5:1": http.StatusUnprocessableEntity} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Address()+"/v1/inputs?hash="+hash, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%s: %+v, %v", hash, resp, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	req := request("cat '" + filepath.Join(dir, "inputs", "d", "x") + "'")
	req.Inputs = []api.RunInput{{Path: "d/x", ID: in.ID}}
	r, err := c.Runs().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out string
	for e, err := range c.Runs().Events(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		out += string(e.Data)
		if e.Type == api.RunEnd && e.Run.State != api.RunCompleted {
			t.Errorf("%+v, %v", e.Run, e.Run.Error)
		}
	}
	if out != "hello" {
		t.Errorf("the command says %q", out)
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
		"NUL":           {func(r *api.StartRun) { r.Argv = []string{"echo", "a\x00b"} }, api.CodeInvalid},
		"long word":     {func(r *api.StartRun) { r.Argv = []string{"echo", strings.Repeat("x", 128<<10)} }, api.CodeInvalid},
		"long command":  {func(r *api.StartRun) { r.Argv = slices.Repeat([]string{strings.Repeat("x", 64<<10)}, 17) }, api.CodeInvalid},
		"NUL in a dir":  {func(r *api.StartRun) { r.Dir = "/a\x00" }, api.CodeInvalid},
		"bad name":      {func(r *api.StartRun) { r.Workspace = "../x" }, api.CodeInvalid},
		"bad keep":      {func(r *api.StartRun) { r.Keep = "all" }, api.CodeInvalid},
		"relative dir":  {func(r *api.StartRun) { r.Dir = "x" }, api.CodeInvalid},
		"bad env":       {func(r *api.StartRun) { r.Env = map[string]string{"1": ""} }, api.CodeInvalid},
		"two sources": {func(r *api.StartRun) {
			r.Inputs = []api.RunInput{{Path: "x", ID: "i23456723456", URL: "https://h/x", Hash: hello}}
		}, api.CodeInvalid},
		"no source":     {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "x"}} }, api.CodeInvalid},
		"no hash":       {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "x", URL: "https://h/x"}} }, api.CodeInvalid},
		"bad hash":      {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "x", URL: "https://h/x", Hash: "sha256:1"}} }, api.CodeInvalid},
		"a host's file": {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "x", URL: "file:///etc/passwd", Hash: hello}} }, api.CodeInvalid},
		"bad id":        {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "x", ID: "../../../../x"}} }, api.CodeInvalid},
		"up and away":   {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "../x", ID: "i23456723456"}} }, api.CodeInvalid},
		"absolute":      {func(r *api.StartRun) { r.Inputs = []api.RunInput{{Path: "/etc/x", ID: "i23456723456"}} }, api.CodeInvalid},
		"one name": {func(r *api.StartRun) {
			r.Inputs = []api.RunInput{{Path: "x", ID: "i23456723456"}, {Path: "x/y", ID: "i23456723456"}}
		}, api.CodeInvalid},
		"too many inputs": {func(r *api.StartRun) { r.Inputs = make([]api.RunInput, 1001) }, api.CodeInvalid},
		"too much":        {func(r *api.StartRun) { r.Input = make([]byte, 8<<20) }, api.CodeTooLarge},
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
