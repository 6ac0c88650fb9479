package input_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
)

// stand is the port with a machine of a session.
type stand struct {
	port  *input.Inputs
	mount string
	in    session.InputContext
	// from is what is to be read of each file.
	from map[string]func() io.Reader
}

// OpenFile implements session.InputAccess.
func (s *stand) OpenFile(_ context.Context, r session.Resource) (io.ReadCloser, error) {
	open := s.from[r.ID]
	if open == nil {
		return nil, api.Errorf(api.CodeNotFound, "no file %q", r.ID)
	}
	return io.NopCloser(open()), nil
}

func newStand(t *testing.T) *stand {
	t.Helper()
	f := hosttest.New(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{mount: filepath.Join(t.TempDir(), "inputs"), from: map[string]func() io.Reader{}}
	s.port = input.New(input.Config{Guest: f.Host.Guest, Mount: s.mount, User: me.Username})
	tenure := sessiontest.Tenure(1)
	lease, err := sandbox.New(sandbox.Config{Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}}).
		Acquire(t.Context(), session.Allocation{Tenure: tenure, Name: session.NewIntent(tenure).ID})
	if err != nil {
		t.Fatal(err)
	}
	s.in = session.InputContext{Tenure: tenure, Lease: lease, Access: s, Key: tenure.Key(session.StageInputs), WorkerOwnsMemory: true}
	return s
}

// bring adds a file to the session.
func (s *stand) bring(name, text string) *session.Resource {
	sum, size := sha256.Sum256([]byte(text)), int64(len(text))
	s.from[name] = func() io.Reader { return strings.NewReader(text) }
	s.in.Session.Resources = append(s.in.Session.Resources, session.Resource{
		Type: session.ResourceFile, ID: name, MountPath: s.mount + "/" + name, ContentHash: "sha256:" + hex.EncodeToString(sum[:]), Size: &size,
	})
	return &s.in.Session.Resources[len(s.in.Session.Resources)-1]
}

// left is what lies where inputs are put, by path, with contents of files.
func (s *stand) left(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	top := filepath.Dir(s.mount)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == top {
			return err
		}
		name, text := strings.TrimPrefix(p, top+"/"), "dir"
		if !d.IsDir() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = string(b)
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s may be written: %s", name, info.Mode())
		}
		all[name] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInputsAppearTogether: whoever looks sees none of them or all, and each whole;
// another call replaces the set, and the end of the harness removes it.
func TestInputsAppearTogether(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	big := strings.Repeat("0123456789abcdef", 200_000)
	s.bring("a.csv", "one,two\n")
	s.bring("deep/er/b", big)
	s.bring("deep/empty", "")
	s.in.Session.Resources = append(s.in.Session.Resources, session.Resource{Type: session.ResourceMemory, MountPath: "/memory"})
	done, looked := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(looked)
		for {
			if _, err := os.Stat(s.mount); err == nil {
				for name, size := range map[string]int{"a.csv": 8, "deep/er/b": len(big), "deep/empty": 0} {
					if info, err := os.Stat(filepath.Join(s.mount, name)); err != nil || info.Size() != int64(size) {
						looked <- errors.Join(errors.New("half of it was seen: "+name), err)
					}
				}
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	err := s.port.Materialize(t.Context(), s.in, nil)
	close(done)
	if err := errors.Join(err, <-looked); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"inputs": "dir", "inputs/a.csv": "one,two\n", "inputs/deep": "dir", "inputs/deep/er": "dir", "inputs/deep/er/b": big, "inputs/deep/empty": "",
	}
	if got := s.left(t); !equal(got, want) {
		t.Errorf("there is %.200v", got)
	}
	s.in.Session.Resources = s.in.Session.Resources[:1]
	if err := s.port.Materialize(t.Context(), s.in, nil); err != nil {
		t.Fatal(err)
	}
	small := map[string]string{"inputs": "dir", "inputs/a.csv": "one,two\n"}
	if got := s.left(t); !equal(got, small) {
		t.Errorf("after another call: %v", got)
	}
	for round, want := range map[string]map[string]string{"periodic-1": small, "checkpoint-x": small} {
		s.in.Key = s.in.Tenure.Key(session.StageSynchronize.Of(round))
		if err := s.port.Synchronize(t.Context(), s.in); err != nil || !equal(s.left(t), want) {
			t.Errorf("after %s: %v, %v", round, s.left(t), err)
		}
	}
	s.in.Key = s.in.Tenure.Key(session.StageSynchronize.Of("final"))
	for range 2 {
		if err := s.port.Synchronize(t.Context(), s.in); err != nil || len(s.left(t)) != 0 {
			t.Errorf("at the end: %v, %v", s.left(t), err)
		}
	}
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// TestInputsThatAreNotWhatTheySay leave nothing, not of themselves and not of those
// before them, and what was there stays.
func TestInputsThatAreNotWhatTheySay(t *testing.T) {
	t.Parallel()
	ten := int64(10)
	for name, tc := range map[string]struct {
		change func(s *stand, r *session.Resource)
		code   api.Code
		says   string
	}{
		"another hash":  {func(_ *stand, r *session.Resource) { r.ContentHash = "sha256:" + strings.Repeat("0", 64) }, api.CodePrecondition, "not sha256:000"},
		"another size":  {func(_ *stand, r *session.Resource) { r.Size = &ten }, api.CodePrecondition, "not 10"},
		"longer":        {func(s *stand, _ *session.Resource) { s.from["x"] = endless }, api.CodePrecondition, "more than"},
		"a flipped bit": {func(s *stand, _ *session.Resource) { s.from["x"] = reader("contenu") }, api.CodePrecondition, "it is sha256:"},
		"cut":           {func(s *stand, _ *session.Resource) { s.from["x"] = reader("cont") }, api.CodePrecondition, "4 bytes"},
		"a fault":       {func(s *stand, _ *session.Resource) { s.from["x"] = broken }, "", "torn cable"},
		"a fault at once": {func(s *stand, _ *session.Resource) {
			s.from["x"] = func() io.Reader { return iotest.ErrReader(errCable) }
		}, "", "torn cable"},
		"not there":        {func(s *stand, _ *session.Resource) { delete(s.from, "x") }, api.CodeNotFound, "no file"},
		"no access":        {func(s *stand, _ *session.Resource) { s.in.Access = nil }, "", "nothing fetches"},
		"a repository":     {func(_ *stand, r *session.Resource) { r.Type = session.ResourceRepository }, "", "not supported"},
		"a kind of thing":  {func(_ *stand, r *session.Resource) { r.Type = "moon" }, "", "moon"},
		"its own memory":   {func(s *stand, r *session.Resource) { r.Type, s.in.WorkerOwnsMemory = session.ResourceMemory, false }, "", "not supported"},
		"elsewhere":        {func(_ *stand, r *session.Resource) { r.MountPath = "/etc/passwd" }, "", "below"},
		"up and away":      {func(s *stand, r *session.Resource) { r.MountPath = s.mount + "/../x" }, "", "leads nowhere else"},
		"the mount itself": {func(s *stand, r *session.Resource) { r.MountPath = s.mount + "/" }, "", "1 to"},
		"twice":            {func(s *stand, r *session.Resource) { r.MountPath = s.mount + "/a" }, "", "another one"},
		"below a file":     {func(s *stand, r *session.Resource) { r.MountPath = s.mount + "/a/b" }, "", "another one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			s.bring("old", "old")
			if err := s.port.Materialize(t.Context(), s.in, nil); err != nil {
				t.Fatal(err)
			}
			s.in.Session.Resources = nil
			s.bring("a", "first")
			tc.change(s, s.bring("x", "content"))
			err := s.port.Materialize(t.Context(), s.in, nil)
			if err == nil || !strings.Contains(err.Error(), tc.says) || tc.code != "" && !errors.Is(err, &api.Error{Code: tc.code}) {
				t.Errorf("%v", err)
			}
			if got := s.left(t); !equal(got, map[string]string{"inputs": "dir", "inputs/old": "old"}) {
				t.Errorf("left: %v", got)
			}
		})
	}
}

var errCable = errors.New("torn cable")

func reader(text string) func() io.Reader { return func() io.Reader { return strings.NewReader(text) } }

func broken() io.Reader {
	return io.MultiReader(strings.NewReader("cont"), iotest.ErrReader(errCable))
}

func endless() io.Reader { return zeros{} }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// waiting says that it is read, and gives nothing until ctx ends.
type waiting struct {
	ctx   context.Context
	began chan struct{}
}

func (w *waiting) Read([]byte) (int, error) {
	close(w.began)
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// TestInputsGivenUp: a call that is given up within a file leaves nothing.
func TestInputsGivenUp(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{ctx, make(chan struct{})}
	s.bring("a", "first")
	s.bring("b", "second")
	s.from["b"] = func() io.Reader { return w }
	go func() {
		<-w.began
		cancel()
	}()
	err := s.port.Materialize(ctx, s.in, nil)
	if e, ok := errors.AsType[*input.Error](err); !errors.Is(err, context.Canceled) || !ok || e.Name != "b" {
		t.Errorf("given up: %v", err)
	}
	if got := s.left(t); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestMoreThanASessionMayHave: the limit is of all files together.
func TestMoreThanASessionMayHave(t *testing.T) {
	t.Parallel()
	v := input.Limit(io.LimitReader(zeros{}, 100), 99)
	if _, err := io.Copy(io.Discard, v); !errors.Is(err, &api.Error{Code: api.CodeTooLarge}) {
		t.Errorf("100 of 99 bytes: %v", err)
	}
	if b, err := io.ReadAll(input.Limit(bytes.NewReader(make([]byte, 99)), 99)); err != nil || len(b) != 99 {
		t.Errorf("99 of 99 bytes: %d, %v", len(b), err)
	}
}
