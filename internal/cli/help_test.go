package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

func TestDoctorWithoutServer(t *testing.T) {
	s := clienttest.New(t)
	r := newRun(s, "")
	r.cfg.Address = "http://127.0.0.1:1"
	if status := r.do(t, "doctor"); status != 0 || !strings.Contains(r.out.String(), "none answers (nothing listens at 127.0.0.1:1") {
		t.Errorf("%d, %s", status, &r.out)
	}
	r = newRun(s, "")
	r.cfg.Checks = func(context.Context, string) []api.Check {
		return []api.Check{{Name: "provider", Level: "error", Detail: "no QEMU", Cost: "no desktop can start", Fix: "apt-get install qemu-system-x86"}}
	}
	if status := r.do(t, "doctor"); status != 1 || !strings.Contains(r.out.String(), "mend: apt-get install") {
		t.Errorf("%d, %s", status, &r.out)
	}
}

func TestDoctorWithServer(t *testing.T) {
	r := newRun(desk(t), "")
	r.cfg.Checks = func(context.Context, string) []api.Check {
		return []api.Check{
			{Name: "provider", OK: true, Level: "ok", Detail: "qemu 7.2.0"},
			{Name: "address", Level: "warning", Detail: "address already in use"}, // by the server that answers
		}
	}
	want := `This machine:
  ok   provider   qemu 7.2.0
The server sees besides:
  warning   accelerator   tcg
                          cost: about 8 times slower
                          mend: run on a host with KVM
`
	if status := r.do(t, "doctor"); status != 0 {
		t.Errorf("status %d, %s", status, &r.err)
	}
	if diff := cmp.Diff(want, r.out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNoToken(t *testing.T) {
	r := newRun(clienttest.New(t), "")
	r.cfg.Token, r.cfg.DataDir = "", t.TempDir()
	if status := r.do(t, "ls"); status != 3 || !strings.Contains(r.err.String(), "DESKFORK_TOKEN") {
		t.Errorf("%d, %s", status, &r.err)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.DataDir, "token"), []byte(clienttest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status := r.do(t, "ls", "-q"); status != 0 {
		t.Errorf("%d, %s", status, &r.err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status := r.do(t, "ls", "--token-file", other); status != 3 {
		t.Errorf("%d, %s", status, &r.err)
	}
}

func TestEvents(t *testing.T) {
	s := desk(t)
	s.Emit("stream.error", "d0001")
	r := newRun(s, "")
	if status := r.do(t, "events", "d0001", "--after", "1"); status != 3 {
		t.Errorf("status %d, %s", status, &r.err)
	}
	want := "2026-01-02T03:04:07Z desktop.ready d0001\n2026-01-02T03:04:08Z stream.error d0001\n"
	if diff := cmp.Diff(want, r.out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestCompletion: names come from the server.
func TestCompletion(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{[]string{"click", ""}, "first\n:4\n"},
		{[]string{"click", "x"}, ":4\n"},
		{[]string{"click", "first", ""}, ":4\n"},
		{[]string{"rm", "first", ""}, ":4\n"},
		{[]string{"exec", "f"}, "first\n:4\n"},
		{[]string{"cp", "f"}, "first:\n:2\n"},
		{[]string{"cp", "./f"}, ":0\n"},
		{[]string{"create", "d"}, "debian-xfce\n:4\n"},
		{[]string{"create", "--shape", ""}, "small\nmedium\nlarge\n:4\n"},
		{[]string{"fork", "f"}, "first\n:4\n"},
		{[]string{"create", "--snapshot", ""}, "base\n:4\n"},
		{[]string{"restore", "f"}, "first\n:4\n"},
		{[]string{"restore", "first", "b"}, "base\n:4\n"},
		{[]string{"restore", "first", "base", ""}, ":4\n"},
		{[]string{"snapshot", "f"}, "first\n:4\n"},
		{[]string{"snapshot", "in"}, "inspect\tDescribe a snapshot as JSON\n:4\n"},
		{[]string{"snapshot", "rm", "base", ""}, ":4\n"},
		{[]string{"snapshot", "export", ""}, "base\n:4\n"},
		{[]string{"snapshot", "export", "base", ""}, ":0\n"},
		{[]string{"policy", "first", "--idle-action", ""}, "pause\nsuspend\ndelete\n:4\n"},
		{[]string{"windows", "first", "m"}, "focus\nclose\nmaximize\nminimize\nrestore\nmove\nresize\n:4\n"},
	} {
		t.Run(strings.Join(tc.words, " "), func(t *testing.T) {
			s := desk(t)
			newRun(s, "").do(t, "snapshot", "first", "base")
			r := newRun(s, "")
			if status := r.do(t, append([]string{"__complete"}, tc.words...)...); status != 0 {
				t.Fatalf("status %d, %s", status, &r.err)
			}
			if diff := cmp.Diff(tc.want, r.out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := newRun(desk(t), "")
		if status := r.do(t, "completion", shell); status != 0 || r.out.Len() < 500 {
			t.Errorf("%s: status %d, %d bytes", shell, status, r.out.Len())
		}
	}
}

// TestHelp compares every help text with its golden file.
func TestHelp(t *testing.T) {
	for _, words := range [][]string{
		{},
		{"create"},
		{"ls"},
		{"inspect"},
		{"wait"},
		{"rm"},
		{"fork"},
		{"snapshot"},
		{"snapshot", "create"},
		{"snapshot", "ls"},
		{"snapshot", "inspect"},
		{"snapshot", "rm"},
		{"snapshot", "export"},
		{"snapshot", "import"},
		{"restore"},
		{"workspace"},
		{"workspace", "ls"},
		{"workspace", "log"},
		{"workspace", "checkpoint"},
		{"workspace", "restore"},
		{"workspace", "clone"},
		{"workspace", "diff"},
		{"workspace", "export"},
		{"workspace", "import"},
		{"workspace", "prune"},
		{"outputs", "prune"},
		{"outputs", "ls"},
		{"outputs", "get"},
		{"workspace", "verify"},
		{"pause"},
		{"suspend"},
		{"resume"},
		{"policy"},
		{"tree"},
		{"run"},
		{"logs"},
		{"events"},
		{"exec"},
		{"cp"},
		{"launch"},
		{"forward"},
		{"screenshot"},
		{"click"},
		{"move"},
		{"drag"},
		{"scroll"},
		{"type"},
		{"key"},
		{"clipboard"},
		{"windows"},
		{"control"},
		{"open"},
		{"record"},
		{"image"},
		{"image", "ls"},
		{"image", "inspect"},
		{"image", "rm"},
		{"image", "seal"},
		{"token"},
		{"token", "create"},
		{"token", "ls"},
		{"token", "rm"},
		{"usage"},
		{"doctor"},
		{"demo"},
		{"version"},
	} {
		name := strings.Join(append([]string{"vmhost"}, words...), "-")
		t.Run(name, func(t *testing.T) {
			r := newRun(clienttest.New(t), "")
			r.cfg.Address = ""
			if status := r.do(t, append(words, "--help")...); status != 0 {
				t.Fatalf("status %d, %s", status, &r.err)
			}
			golden := filepath.Join("testdata", "help", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, r.out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), r.out.String()); diff != "" {
				t.Errorf("%s (write it anew with -update)", diff)
			}
			if !strings.Contains(r.out.String(), "Examples:") {
				t.Error("no examples")
			}
		})
	}
}

// TestAddressOfDataDirectory: the data directory alone leads to its server; what
// is said otherwise wins.
func TestAddressOfDataDirectory(t *testing.T) {
	s := desk(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"address": s.URL + "\n", "token": clienttest.Token} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		line, env string
		status    int
	}{
		{line: "ls -q --data-dir " + dir},
		{line: "ls -q --data-dir " + dir, env: "http://127.0.0.1:1", status: 9},
		{line: "ls -q --data-dir " + dir + " --address http://127.0.0.1:1", status: 9},
		{line: "ls -q --data-dir " + dir + " --address " + s.URL, env: "http://127.0.0.1:1"},
	} {
		r := newRun(s, "")
		r.cfg.Address, r.cfg.Token = tc.env, ""
		if status := r.do(t, strings.Fields(tc.line)...); status != tc.status {
			t.Errorf("%s with %q: status %d, %s", tc.line, tc.env, status, &r.err)
		}
	}
}
