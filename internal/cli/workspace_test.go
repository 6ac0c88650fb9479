package cli_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

func TestWorkspace(t *testing.T) {
	steps(t,
		step{line: "workspace ls", out: "NAME   ID   PUBLISHED   AGE\n"},
		step{line: "workspace ls --json", out: "{\n  \"workspaces\": []\n}\n"},
		step{line: "workspace checkpoint first", status: 2, err: "name one"},
		step{line: "workspace checkpoint nobody thesis", status: 4, err: "nobody"},
		step{line: "workspace checkpoint", status: 2, err: "usage: vmhost workspace checkpoint D [W]"},
		step{line: "workspace checkpoint first thesis", out: "w0001/c0001\n"},
		step{line: "workspace checkpoint first", out: "w0001/c0002\n"},
		step{line: "workspace ls", out: "" +
			"NAME     ID      PUBLISHED     AGE\n" +
			"thesis   w0001   w0001/c0002   3 h\n"},
		step{line: "workspace log thesis", out: "" +
			"CHECKPOINT    PARENT        DESKTOP   USED       ADDED     FROZEN   AGE\n" +
			"w0001/c0002   w0001/c0001   d0001     40.0 MiB   2.0 MiB   12 ms    3 h\n" +
			"w0001/c0001   -             d0001     40.0 MiB   2.0 MiB   12 ms    3 h\n"},
		step{line: "workspace log none", status: 4, err: `no workspace "none"`},
		step{line: "workspace log", status: 2, err: "usage: vmhost workspace log W"},
		step{line: "workspace restore thesis --name again", out: "d0002\n"},
		step{line: "workspace restore thesis@c0001 debian-xfce --no-wait", out: "d0003\n"},
		step{line: "workspace restore thesis@c0009", status: 4, err: "c0009"},
		step{line: "workspace restore none", status: 4, err: "none"},
		step{line: "workspace restore thesis windows-11", status: 4, err: "windows-11"},
		step{line: "create --workspace thesis --no-wait --name other", out: "d0004\n"},
		step{line: "create --no-wait --name fresh", out: "d0005\n"},
		step{line: "workspace checkpoint fresh thesis", status: 5, err: "publish under another name, or replace what is there"},
		step{line: "workspace checkpoint fresh thesis --replace", out: "w0001/c0003\n"},
		step{line: "workspace clone thesis attempt", out: "w0002\n"},
		step{line: "workspace clone thesis attempt", status: 5, err: "taken"},
		step{line: "workspace clone thesis early --checkpoint c0001", out: "w0003\n"},
		step{line: "workspace clone none x", status: 4, err: "none"},
		step{line: "workspace clone thesis", status: 2, err: "usage: vmhost workspace clone W NAME"},
		step{line: "workspace prune --last 1 --dry-run", out: "w0001/c0001\nw0001/c0002\n3 kept, 2 dropped, 0 spared; 4.0 MiB in 2 objects\n"},
		step{line: "workspace prune --last 1", out: "w0001/c0001\nw0001/c0002\n3 kept, 2 dropped, 0 spared; 4.0 MiB in 2 objects\n"},
		step{line: "workspace prune thesis", status: 2, err: "usage: vmhost workspace prune"},
		step{line: "workspace prune --last x", status: 2, err: "last"},
		step{line: "workspace verify thesis early", out: "w0001/c0003: whole\nw0001/c0001: whole\n"},
		step{line: "workspace verify none", status: 4, err: "none"},
	)
}

// TestWorkspaceJSON: what the commands print for programs is what the API says.
func TestWorkspaceJSON(t *testing.T) {
	s := desk(t)
	read := func(v any, line string) {
		t.Helper()
		r := newRun(s, "")
		if status := r.do(t, strings.Fields(line+" --json")...); status != 0 || r.err.Len() > 0 {
			t.Fatalf("%s: status %d, %s", line, status, &r.err)
		}
		d := json.NewDecoder(&r.out)
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var c api.Checkpoint
	read(&c, "workspace checkpoint first thesis")
	var list api.WorkspaceList
	read(&list, "workspace ls")
	var log api.CheckpointList
	read(&log, "workspace log thesis")
	if len(list.Workspaces) != 1 || list.Workspaces[0].Published != c.Ref || len(log.Checkpoints) != 1 || log.Checkpoints[0] != c {
		t.Errorf("%+v, %+v, %+v", c, list, log)
	}
	var w api.Workspace
	read(&w, "workspace clone thesis attempt")
	var d api.Desktop
	read(&d, "workspace restore attempt --no-wait")
	var v []api.Verified
	read(&v, "workspace verify thesis attempt")
	var p api.Pruned
	read(&p, "workspace prune")
	if w.Published != c.Ref || d.ID == "" || len(v) != 2 || !v[1].OK || p.Kept != 2 {
		t.Errorf("%+v, %+v, %+v, %+v", w, d, v, p)
	}
	s.DamageStore()
	r := newRun(s, "")
	if status := r.do(t, "workspace", "verify", "thesis", "--json"); status != 8 || !strings.Contains(r.err.String(), string(api.CodeImageCorrupt)) {
		t.Errorf("status %d, %s", status, &r.err)
	}
	if err := json.Unmarshal(r.out.Bytes(), &v); err != nil || v[0].OK || len(v[0].Damaged) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	r = newRun(s, "")
	if status := r.do(t, "workspace", "verify", "thesis"); status != 8 || !strings.Contains(r.out.String(), "w0001/c0001: packs/w0001/c0001/0000: is missing\n") {
		t.Errorf("status %d, %s", status, &r.out)
	}
}

// TestCheckpointIsOneKeyedCall: what is repeated after a link broke makes one.
func TestCheckpointIsOneKeyedCall(t *testing.T) {
	s := desk(t)
	s.FailNext(&api.Error{Status: 502})
	r := newRun(s, "")
	if status := r.do(t, "workspace", "checkpoint", "first", "thesis"); status != 0 {
		t.Fatalf("status %d, %s", status, &r.err)
	}
	if n := len(s.Requests()); n != 2 || s.Header().Get(api.HeaderIdempotencyKey) == "" {
		t.Errorf("%d requests, the last one with %v", n, s.Header())
	}
}

// kept is a server with the workspaces before and after.
func kept(t *testing.T) *clienttest.Server {
	t.Helper()
	s := desk(t)
	for _, st := range []struct{ workspace, same, other string }{{"before", "gone", "old"}, {"after", "new", "changed"}} {
		s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: st.workspace})
		s.SetFile(st.workspace, "/workspace/"+st.same, []byte("x"), 0o640)
		s.SetFile(st.workspace, "/workspace/dir/file", []byte(st.other), 0o755)
		s.SetFile(st.workspace, "/home/agent/elsewhere", []byte("y"), 0o644)
		if r := newRun(s, ""); r.do(t, "workspace", "checkpoint", st.workspace, st.workspace) != 0 {
			t.Fatal(r.err.String())
		}
	}
	return s
}

func TestWorkspaceDiff(t *testing.T) {
	s := kept(t)
	for _, tc := range []struct {
		line   string
		status int
		out    string
		err    string
	}{
		{line: "before after", out: "changed  dir/file (content)\nremoved  gone\nadded    new\n"},
		{line: "before before@c0001", out: ""},
		{line: "before after --json", out: `{"path":"dir/file","change":"changed","kind":"file","fields":["content"],"size":7,"size_before":3}` + "\n" +
			`{"path":"gone","change":"removed","kind":"file","size_before":1}` + "\n" + `{"path":"new","change":"added","kind":"file","size":1}` + "\n"},
		{line: "before none", status: 4, err: `no workspace "none"`},
		{line: "before", status: 2, err: "usage: vmhost workspace diff A[@CHECKPOINT] B[@CHECKPOINT]"},
	} {
		r := newRun(s, "")
		if status := r.do(t, append([]string{"workspace", "diff"}, strings.Fields(tc.line)...)...); status != tc.status {
			t.Errorf("%s: status %d, want %d; %s", tc.line, status, tc.status, &r.err)
		}
		if diff := cmp.Diff(tc.out, r.out.String()); diff != "" || !strings.Contains(r.err.String(), tc.err) {
			t.Errorf("%s: %s %s", tc.line, diff, &r.err)
		}
	}
	r := newRun(s, "")
	r.cfg.Progress = true
	r.do(t, "workspace", "diff", "before", "after", "--image", "other")
	if !strings.Contains(r.err.String(), "waiting: a desktop starts") {
		t.Errorf("a terminal is told %q", &r.err)
	}
	if last := s.Requests()[len(s.Requests())-1]; last != "GET /v1/workspaces/before/diff?image=other&to=after" {
		t.Errorf("asked %s", last)
	}
}

// TestWorkspacePorts: files go out and in through a file and through pipes; what
// broke off is no file, and says why.
func TestWorkspacePorts(t *testing.T) {
	s := kept(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "before.tar")
	r := newRun(s, "")
	if status := r.do(t, "workspace", "export", "before", "-o", file); status != 0 || r.out.String() != file+"\n" {
		t.Fatalf("%d, %s%s", status, &r.out, &r.err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
	pipe := newRun(s, "")
	if status := pipe.do(t, "workspace", "export", "before@c0001", "--output", "-", "--json"); status != 0 || pipe.err.Len() > 0 {
		t.Fatalf("%d, %s", status, &pipe.err)
	}
	if raw, err := os.ReadFile(file); err != nil || !bytes.Equal(raw, pipe.out.Bytes()) || names(t, raw) != "./dir/file ./gone" {
		t.Errorf("%v, %v", names(t, raw), err)
	}
	for i, line := range []string{file + " one", "- two --size 20G --image other", "- one --replace"} {
		in := newRun(s, pipe.out.String())
		if status := in.do(t, append([]string{"workspace", "import"}, strings.Fields(line)...)...); status != 0 {
			t.Fatalf("%s: %d, %s", line, status, &in.err)
		}
		want := []string{"w0003/c0001\n", "w0004/c0001\n", "w0003/c0002\n"}[i]
		if diff := cmp.Diff(want, in.out.String()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	if all := strings.Join(s.Requests(), "\n"); !strings.Contains(all, "PUT /v1/workspaces/two/archive?image=other&size_mib=20480\n") {
		t.Errorf("asked %s", all)
	}
	if d := newRun(s, ""); d.do(t, "workspace", "diff", "before", "two") != 0 || d.out.Len() > 0 {
		t.Errorf("there and back: %s%s", &d.out, &d.err)
	}
	for _, tc := range []struct {
		line, stdin string
		status      int
		err         string
	}{
		{line: "import - one", stdin: pipe.out.String(), status: 5, err: "is at checkpoint"},
		{line: "import - three", stdin: "no tar" + strings.Repeat("x", 600), status: 2, err: "tar"},
		{line: "import " + dir + "/none three", status: 4, err: "none"},
		{line: "import - three --size 3", status: 2, err: "size"},
		{line: "import -", status: 2, err: "usage: vmhost workspace import FILE W"},
		{line: "export before", status: 2, err: "name the file to write with -o"},
		{line: "export none -o -", status: 4, err: "none"},
		{line: "export before -o " + dir + "/no/such", status: 4, err: "no such file"},
	} {
		r := newRun(s, tc.stdin)
		status := r.do(t, append([]string{"workspace"}, strings.Fields(tc.line)...)...)
		if status != tc.status || !strings.Contains(r.err.String(), tc.err) || r.out.Len() > 0 {
			t.Errorf("%s: status %d, want %d; %s", tc.line, status, tc.status, &r.err)
		}
	}
	tty := newRun(s, "")
	tty.cfg.Terminal = &console{}
	if status := tty.do(t, "workspace", "export", "before", "-o", "-"); status != 2 || tty.out.Len() > 0 {
		t.Errorf("to a terminal: status %d, %d bytes", status, tty.out.Len())
	}
	s.CutExports()
	cut := newRun(s, "")
	if status := cut.do(t, "workspace", "export", "before", "-o", filepath.Join(dir, "half")); status == 0 || !strings.Contains(cut.err.String(), "tar ended with status 2") {
		t.Errorf("a tar that ended badly: status %d, %s", status, &cut.err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// names are those in a tar.
func names(t *testing.T, raw []byte) string {
	t.Helper()
	var all []string
	for in := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := in.Next()
		if err == io.EOF {
			return strings.Join(all, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h.Name)
	}
}
