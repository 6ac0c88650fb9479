package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// local makes files below a directory: name → content.
func local(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCopyIn: docker's rules for names, towards a desktop.
func TestCopyIn(t *testing.T) {
	for _, tc := range []struct {
		name, src, dst string
		status         int
		want           string // a path there, which holds "A"
	}{
		{"file to a new name", "a", "/tmp/b", 0, "/tmp/b"},
		{"file into a directory", "a", "/tmp", 0, "/tmp/a"},
		{"file into a directory with a slash", "a", "/tmp/", 0, "/tmp/a"},
		{"file over a file", "a", "/tmp/old", 0, "/tmp/old"},
		{"file into no directory", "a", "/nope/", 4, ""},
		{"file below no directory", "a", "/nope/b", 4, ""},
		{"file as a directory", "a", "/tmp/old/", 2, ""},
		{"directory to a new name", "d", "/tmp/e", 0, "/tmp/e/sub/a"},
		{"directory to a new name with a slash", "d", "/tmp/e/", 0, "/tmp/e/sub/a"},
		{"directory into a directory", "d", "/tmp", 0, "/tmp/d/sub/a"},
		{"content into a directory", "d/.", "/tmp", 0, "/tmp/sub/a"},
		{"content to a new name", "d/.", "/tmp/e", 0, "/tmp/e/sub/a"},
		{"directory over a file", "d", "/tmp/old", 2, ""},
		{"directory below no directory", "d", "/nope/e", 4, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := desk(t)
			s.SetFile("first", "/tmp/old", []byte("old"), 0o600)
			dir := local(t, map[string]string{"a": "A", "d/sub/a": "A"})
			src := dir + "/" + tc.src
			r := newRun(s, "")
			if got := r.do(t, "cp", src, "first:"+tc.dst); got != tc.status {
				t.Fatalf("status %d, want %d; %s", got, tc.status, &r.err)
			}
			if tc.want == "" {
				return
			}
			content, mode, ok := s.File("first", tc.want)
			if !ok || string(content) != "A" || mode != 0o750 {
				t.Errorf("%s: %q, mode %o, %v", tc.want, content, mode, ok)
			}
			if r.out.Len()+r.err.Len() > 0 {
				t.Errorf("it said %q %q", &r.out, &r.err)
			}
		})
	}
}

// TestCopyOut: the same rules, the other way.
func TestCopyOut(t *testing.T) {
	for _, tc := range []struct {
		name, src, dst string
		status         int
		want           string
	}{
		{"file to a new name", "/srv/a", "b", 0, "b"},
		{"file into a directory", "/srv/a", "dir", 0, "dir/a"},
		{"file over a file", "/srv/a", "old", 0, "old"},
		{"file into no directory", "/srv/a", "nope/", 4, ""},
		{"directory to a new name", "/srv", "e", 0, "e/sub/a"},
		{"directory into a directory", "/srv", "dir", 0, "dir/srv/sub/a"},
		{"content into a directory", "/srv/.", "dir", 0, "dir/sub/a"},
		{"directory over a file", "/srv", "old", 2, ""},
		{"nothing", "/nope", "b", 4, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := desk(t)
			s.SetFile("first", "/srv/a", []byte("A"), 0o750)
			s.SetFile("first", "/srv/sub/a", []byte("A"), 0o750)
			dir := local(t, map[string]string{"old": "old", "dir/x": ""})
			r := newRun(s, "")
			if got := r.do(t, "cp", "first:"+tc.src, dir+"/"+tc.dst); got != tc.status {
				t.Fatalf("status %d, want %d; %s", got, tc.status, &r.err)
			}
			if tc.want == "" {
				return
			}
			raw, err := os.ReadFile(filepath.Join(dir, tc.want))
			if err != nil || string(raw) != "A" {
				t.Fatalf("%q, %v", raw, err)
			}
			info, err := os.Stat(filepath.Join(dir, tc.want))
			if err != nil || info.Mode() != fs.FileMode(0o750) {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			left, err := filepath.Glob(dir + "/.vmhost-*")
			if err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

// TestCopyStreams: - is standard input and output.
func TestCopyStreams(t *testing.T) {
	s := desk(t)
	s.SetFile("first", "/srv/f", []byte("bytes\x00"), 0o640)
	out := newRun(s, "")
	if status := out.do(t, "cp", "first:/srv/f", "-"); status != 0 || out.out.String() != "bytes\x00" {
		t.Errorf("%d, %q", status, &out.out)
	}
	tar := newRun(s, "")
	if status := tar.do(t, "cp", "first:/srv", "-"); status != 0 || tar.out.Len() < 1024 {
		t.Fatalf("%d, %d bytes", status, tar.out.Len())
	}
	in := newRun(s, tar.out.String())
	if status := in.do(t, "cp", "-", "first:/workspace/"); status != 0 {
		t.Fatalf("%d, %s", status, &in.err)
	}
	content, mode, ok := s.File("first", "/workspace/f")
	if diff := cmp.Diff("bytes\x00", string(content)); diff != "" || mode != 0o640 || !ok {
		t.Errorf("%s mode %o", diff, mode)
	}
}

// TestCopyOfWhatCannotBeRead: the reason, the path and the status come through, in
// both directions.
func TestCopyOfWhatCannotBeRead(t *testing.T) {
	s := desk(t)
	s.SetFile("first", "/tmp/d/a", []byte("A"), 0o644)
	s.SetFile("first", "/tmp/d/secret", []byte("B"), 0o200)
	r := newRun(s, "")
	if got := r.do(t, "cp", "first:/tmp/d", t.TempDir()); got != 3 || !strings.Contains(r.err.String(), "copy /tmp/d: read archive: open ./secret: permission denied") {
		t.Errorf("status %d; %s", got, &r.err)
	}
	r = newRun(s, "")
	if got := r.do(t, "cp", "first:/tmp/d", "-"); got != 3 || !strings.Contains(r.err.String(), "open ./secret: permission denied") {
		t.Errorf("to standard output: status %d; %s", got, &r.err)
	}
	// /proc/self/mem can be opened, and not read at its beginning.
	r = newRun(s, "")
	if got := r.do(t, "cp", "/proc/self/mem", "first:/tmp/mem"); got != 1 || !strings.Contains(r.err.String(), "read /proc/self/mem: input/output error") {
		t.Errorf("of a file: status %d; %s", got, &r.err)
	}
	r = newRun(s, "")
	if got := r.do(t, "cp", "first:/tmp/d/a", "/proc/self/status"); got != 3 && got != 4 || strings.Contains(r.err.String(), "EOF") {
		t.Errorf("to where nothing can be written: status %d; %s", got, &r.err)
	}
}

// TestCopyTellsHowFarItIs: on a terminal, both ways, and nowhere else.
func TestCopyTellsHowFarItIs(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		s := desk(t)
		dir := local(t, map[string]string{"a": strings.Repeat("A", 3<<20), "d/b": "B"})
		for _, tc := range []struct{ src, dst, want string }{
			{dir + "/a", "first:/tmp/a", "3.0 MiB of 3.0 MiB (100 %), "},
			{"first:/tmp/a", dir + "/back", "3.0 MiB of 3.0 MiB (100 %), "},
			{dir + "/d", "first:/tmp/d", " KiB, "},
		} {
			r := newRun(s, "")
			r.cfg.Progress = terminal
			r.cfg.Now = clock(r.cfg.Now())
			if got := r.do(t, "cp", tc.src, tc.dst); got != 0 {
				t.Fatalf("status %d; %s", got, &r.err)
			}
			if strings.Contains(r.err.String(), tc.want) != terminal || (r.err.Len() > 0) != terminal {
				t.Errorf("terminal %t: %s to %s tells %q", terminal, tc.src, tc.dst, &r.err)
			}
		}
	}
}
