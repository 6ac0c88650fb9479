package cli_test

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
)

// step is one command line of several against one server.
type step struct {
	line   string
	status int
	out    string // the whole of standard output
	err    string // part of standard error
}

func steps(t *testing.T, list ...step) {
	t.Helper()
	s := desk(t)
	for _, st := range list {
		r := newRun(s, "")
		if got := r.do(t, strings.Fields(st.line)...); got != st.status {
			t.Errorf("%s: status %d, want %d; %s", st.line, got, st.status, &r.err)
		}
		if diff := cmp.Diff(st.out, r.out.String()); diff != "" {
			t.Errorf("%s: %s", st.line, diff)
		}
		if !strings.Contains(r.err.String(), st.err) || (st.err == "" && st.status != 0) {
			t.Errorf("%s: standard error %q, want %q in it", st.line, &r.err, st.err)
		}
	}
}

// TestCreateTellsWhatItWaitsFor: whoever waits for an image's first desktop hears
// why, on a terminal or not, and never on standard output.
func TestCreateTellsWhatItWaitsFor(t *testing.T) {
	for _, line := range []string{"create --name second", "create --name second --json"} {
		t.Run(line, func(t *testing.T) {
			s := desk(t)
			s.StartSlowly("the boot snapshot is being sealed", "stage link reached (9 s)")
			r := newRun(s, "")
			if status := r.do(t, strings.Fields(line)...); status != 0 {
				t.Fatalf("status %d; %s", status, &r.err)
			}
			for _, want := range []string{"waiting: the boot snapshot is being sealed\n", "waiting: stage link reached (9 s)\n"} {
				if !strings.Contains(r.err.String(), want) {
					t.Errorf("standard error %q, want %q in it", &r.err, want)
				}
			}
			if strings.Contains(r.out.String(), "waiting: ") {
				t.Errorf("standard output %q", &r.out)
			}
		})
	}
}

// TestCreateOfWhatIsDeleted: a desktop that was deleted while it started does not
// stay, and nobody says so.
func TestCreateOfWhatIsDeleted(t *testing.T) {
	s := desk(t)
	s.StartSlowly("something", "something else", "and more")
	r := newRun(s, "")
	status := make(chan int, 1)
	go func() { status <- r.do(t, "create", "--name", "second") }()
	for !strings.Contains(strings.Join(s.Requests(), "\n"), "/v1/desktops/d0002/wait") {
		runtime.Gosched()
	}
	if got := newRun(s, "").do(t, "rm", "second"); got != 0 {
		t.Errorf("rm: status %d", got)
	}
	if got := <-status; got != 4 || strings.Contains(r.err.String(), "stays") {
		t.Errorf("status %d, %s", got, &r.err)
	}
}

func TestFork(t *testing.T) {
	steps(t,
		step{line: "cp - first:/tmp/x"},
		step{line: "fork first --name twin", out: "d0002\n", err: "drawn         1.5 s\n"},
		step{line: "fork first -n 2 --name try --no-wait", out: "d0003\nd0004\n"},
		step{line: "fork try-2 -n 3 --name try", status: 5, err: "taken"},
		step{line: "fork nobody", status: 4, err: "nobody"},
		step{line: "fork first -n 0", status: 2, err: "1 to 200"},
		step{line: "fork first -n 201", status: 2, err: "1 to 200"},
		step{line: "fork", status: 2, err: "usage: vmhost fork D"},
		step{line: "fork first --label x", status: 2, err: "KEY=VALUE"},
		step{line: "cp twin:/tmp/x -"},
		step{line: "ls -q --filter name=try-2", out: "d0004\n"},
	)
}

func TestCreateFromSnapshot(t *testing.T) {
	steps(t,
		step{line: "snapshot first base", out: "s0001\n"},
		step{line: "create --snapshot base --name second", out: "d0002\n", err: "drawn"},
		step{line: "create --snapshot nope", status: 4, err: `no snapshot "nope"`},
		step{line: "create debian-xfce --snapshot base", status: 2, err: "not both"},
		step{line: "create --snapshot base --cold", status: 2, err: "--cold"},
		step{line: "create --cold --name third --no-wait", out: "d0003\n"},
		step{line: "ls", out: "" +
			"ID      NAME     IMAGE         STATE   SHAPE    DISPLAY    ORIGIN     MEM         AGE   LABELS\n" +
			"d0003   third    debian-xfce   ready   medium   1280x800   cold       600.0 MiB   2 h   -\n" +
			"d0002   second   debian-xfce   ready   medium   1280x800   snapshot   96.0 MiB    2 h   -\n" +
			"d0001   first    debian-xfce   ready   medium   1280x800   template   96.0 MiB    2 h   team=qa\n"},
	)
}

// TestCreateSeveral: they are made side by side, and each that fails is told.
func TestCreateSeveral(t *testing.T) {
	s := desk(t)
	r := newRun(s, "")
	if status := r.do(t, "create", "-n", "5", "--name", "w"); status != 0 {
		t.Fatalf("status %d, %s", status, &r.err)
	}
	if ids := strings.Fields(r.out.String()); len(ids) != 5 || !regexp.MustCompile(`(?m)^w-5: drawn +1\.5 s$`).MatchString(r.err.String()) {
		t.Errorf("ids %q, said %s", ids, &r.err)
	}
	list := newRun(s, "")
	list.do(t, "ls", "--json", "--filter", "name=w-5")
	if !strings.Contains(list.out.String(), `"name": "w-5"`) {
		t.Errorf("w-5 is missing in %s", &list.out)
	}

	some := newRun(s, "")
	if status := some.do(t, "create", "-n", "6", "--name", "w"); status != 5 {
		t.Errorf("status %d, %s", status, &some.err)
	}
	if ids := strings.Fields(some.out.String()); len(ids) != 1 {
		t.Errorf("ids %q", ids)
	}
	for _, part := range []string{"vmhost: 1 of 6: ", "vmhost: 5 of 6: ", `"w-5" is taken`} {
		if !strings.Contains(some.err.String(), part) {
			t.Errorf("no %q in %s", part, &some.err)
		}
	}

	asJSON := newRun(s, "")
	if status := asJSON.do(t, "create", "-n", "3", "--json"); status != 0 || asJSON.err.Len() > 0 {
		t.Errorf("status %d, %s", status, &asJSON.err)
	}
	var got api.DesktopList
	if err := json.Unmarshal(asJSON.out.Bytes(), &got); err != nil || len(got.Desktops) != 3 {
		t.Errorf("%v: %s", err, &asJSON.out)
	}
}

func TestPower(t *testing.T) {
	steps(t,
		step{line: "fork first --name second --no-wait", out: "d0002\n"},
		step{line: "pause first second", out: "first\nsecond\n"},
		step{line: "ls -q --filter state=paused", out: "d0002\nd0001\n"},
		step{line: "resume first", out: "first\n"},
		step{line: "suspend first nobody second", status: 4, out: "first\nsecond\n", err: `vmhost: nobody: no desktop "nobody"`},
		step{line: "ls -q --filter state=suspended", out: "d0002\nd0001\n"},
		step{line: "resume nobody", status: 4, err: `vmhost: no desktop "nobody"`},
		step{line: "resume", status: 2, err: "usage: vmhost resume D..."},
		step{line: "snapshot create first base", out: "s0001\n"},
		step{line: "restore first base", out: "d0001\n"},
		step{line: "restore first nope", status: 4, err: "nope"},
		step{line: "restore first", status: 2, err: "usage: vmhost restore D SNAPSHOT"},
	)
}

func TestPolicy(t *testing.T) {
	steps(t,
		step{line: "policy first", out: "TTL     EXPIRES   IDLE    ACTION   BELOW CPU\nnever   -         never   -        -\n"},
		step{line: "policy first --ttl 2h --idle 10m", out: "TTL      EXPIRES   IDLE    ACTION    BELOW CPU\n2h0m0s   -         10m0s   suspend   10 %\n"},
		step{line: "policy first --idle-action delete --idle-cpu 3 --ttl 0", out: "TTL     EXPIRES   IDLE    ACTION   BELOW CPU\nnever   -         10m0s   delete   3 %\n"},
		step{line: "policy first --json", out: "{\n  \"idle_s\": 600,\n  \"idle_action\": \"delete\",\n  \"idle_cpu\": 3\n}\n"},
		step{line: "policy first --idle 10ms", status: 2, err: "whole seconds"},
		step{line: "policy first --idle -1s", status: 2, err: "whole seconds"},
		step{line: "policy first --idle-action explode", status: 2, err: "none of pause, suspend and delete"},
		step{line: "policy first --idle-cpu 101", status: 2, err: "0 to 100"},
		step{line: "policy nobody", status: 4, err: "nobody"},
		step{line: "create --idle-action pause", status: 2, err: "need --idle"},
		step{line: "create --name b --ttl 1h --idle 5m --no-wait", out: "d0002\n"},
		step{line: "policy b --json", out: "{\n  \"ttl_s\": 3600,\n  \"idle_s\": 300\n}\n"},
	)
}

func TestSnapshot(t *testing.T) {
	steps(t,
		step{line: "snapshot ls", out: "ID   NAME   KIND   DESKTOP   IMAGE   SHAPE   MEMORY   DISK   USED BY   AGE\n"},
		step{line: "snapshot first base", out: "s0001\n"},
		step{line: "snapshot first base", status: 5, err: "taken"},
		step{line: "snapshot first", status: 2, err: "usage: vmhost snapshot D NAME"},
		step{line: "snapshot a b c", status: 2, err: "usage: vmhost snapshot D NAME"},
		step{line: "snapshot nobody base", status: 4, err: "nobody"},
		step{line: "snapshot ls", out: "" +
			"ID      NAME   KIND       DESKTOP   IMAGE          SHAPE    MEMORY     DISK      USED BY   AGE\n" +
			"s0001   base   snapshot   d0001     0123456789ab   medium   49.0 MiB   8.0 MiB   0         119 min\n"},
		step{line: "snapshot ls -q", out: "s0001\n"},
		step{line: "snapshot exports", out: "NAME   SNAPSHOT   IMAGE   SHAPE   SIZE   AGE\n"},
		step{line: "snapshot export base blob:login", out: "blob:login\n"},
		step{line: "snapshot export base blob:login", status: 5, err: "login"},
		step{line: "snapshot exports", out: "" +
			"NAME         SNAPSHOT   IMAGE          SHAPE    SIZE       AGE\n" +
			"blob:login   base       0123456789ab   medium   21.0 MiB   59 min\n"},
		step{line: "snapshot import blob:login again", out: "s0002\n"},
		step{line: "snapshot import blob:nope again", status: 4, err: "nope"},
		step{line: "snapshot rm blob:login again", out: "blob:login\nagain\n"},
		step{line: "snapshot rm blob:login", status: 4, err: "login"},
		step{line: "snapshot rm nope", status: 4, err: "nope"},
		step{line: "snapshot rm base", out: "base\n"},
		step{line: "snapshot ls --json", out: "{\n  \"snapshots\": []\n}\n"},
	)
}

// TestSnapshotPorts: a snapshot goes through a file and through pipes, and what
// broke off is no file.
func TestSnapshotPorts(t *testing.T) {
	s := desk(t)
	s.SetFile("first", "/workspace/x", []byte("kept"), 0o600)
	if status := newRun(s, "").do(t, "snapshot", "first", "base"); status != 0 {
		t.Fatal(status)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "base.zst")
	r := newRun(s, "")
	if status := r.do(t, "snapshot", "export", "base", file); status != 0 || r.out.String() != file+"\n" {
		t.Fatalf("%d, %s%s", status, &r.out, &r.err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: it holds secrets", info, err)
	}
	pipe := newRun(s, "")
	if status := pipe.do(t, "snapshot", "export", "base", "-"); status != 0 || pipe.err.Len() > 0 {
		t.Fatalf("%d, %s", status, &pipe.err)
	}
	there := desk(t)
	for name, from := range map[string]string{"one": file, "two": "-"} {
		in := newRun(there, pipe.out.String())
		if status := in.do(t, "snapshot", "import", from, name); status != 0 {
			t.Fatalf("%d, %s", status, &in.err)
		}
		if status := newRun(there, "").do(t, "create", "--snapshot", name, "--name", name); status != 0 {
			t.Fatal(status)
		}
		if content, _, ok := there.File(name, "/workspace/x"); !ok || string(content) != "kept" {
			t.Errorf("in the clone: %q, %v", content, ok)
		}
	}
	s.CutExports()
	if status := newRun(s, "").do(t, "snapshot", "export", "base", filepath.Join(dir, "half")); status != 9 {
		t.Errorf("a broken link: status %d", status)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if status := newRun(there, "half").do(t, "snapshot", "import", "-", "three"); status != 8 {
		t.Errorf("half a file: status %d", status)
	}
	if status := newRun(there, "").do(t, "snapshot", "import", filepath.Join(dir, "none"), "three"); status != 4 {
		t.Errorf("no file: status %d", status)
	}
	tty := newRun(s, "")
	tty.cfg.Terminal = &console{}
	if status := tty.do(t, "snapshot", "export", "base", "-"); status != 2 || tty.out.Len() > 0 {
		t.Errorf("to a terminal: status %d, %d bytes", status, tty.out.Len())
	}
}

func TestTree(t *testing.T) {
	steps(t,
		step{line: "fork first -n 2 --name try --no-wait", out: "d0002\nd0003\n"},
		step{line: "fork try-1 --name deep --no-wait", out: "d0004\n"},
		step{line: "snapshot deep kept", out: "s0001\n"},
		step{line: "suspend try-2", out: "try-2\n"},
		step{line: "rm try-1", out: "try-1\n"},
		step{line: "tree", out: `NAME               ID             STATE       MEMORY PRIVATE   SHARED    DISK PRIVATE   AGE
debian-xfce        0123456789ab   image       -                -         2.0 GiB        3 h
└─ first           d0001          ready       96.0 MiB         2.0 GiB   8.0 MiB        2 h
   ├─ try-1        d0002          removed     -                2.0 GiB   8.0 MiB        2 h
   │  └─ deep      d0004          ready       24.0 MiB         2.0 GiB   8.0 MiB        2 h
   │     └─ kept   s0001          snapshot    48.0 MiB         -         8.0 MiB        116 min
   └─ try-2        d0003          suspended   -                2.0 GiB   8.0 MiB        2 h
`},
	)
	r := newRun(desk(t), "")
	var got api.Tree
	if status := r.do(t, "tree", "--json"); status != 0 || json.Unmarshal(r.out.Bytes(), &got) != nil || len(got.Nodes) != 2 {
		t.Errorf("%d, %s", status, &r.out)
	}
	r = newRun(desk(t), "")
	if status := r.do(t, "tree", "--picture", "-"); status != 0 {
		t.Fatalf("%d, %s", status, &r.err)
	}
	if img, err := png.Decode(&r.out); err != nil || img.Bounds().Dy() < 2*160 {
		t.Errorf("the picture of an image and a desktop: %v", err)
	}
}

// TestControl: a person takes control from a terminal, and gives it back.
func TestControl(t *testing.T) {
	steps(t,
		step{line: "control first", out: "nobody has control (epoch 1)\n"},
		// The fake server is three hours behind.
		step{line: "control first take --ttl 4h", out: "a person has control, that is you (epoch 2, for 1h0m0s)\n"},
		step{line: "control first request --agent --holder robot", status: 5, err: "has control"},
		step{line: "control first release", out: "nobody has control (epoch 3)\n"},
		step{
			line: "control first log",
			out: "TIME                   WHAT              EPOCH   WHO      KIND     BY   DETAIL\n" +
				"2026-01-02T03:04:05Z   control.release   2       person   person        \n" +
				"2026-01-02T03:04:05Z   control.take      1       person   person        \n",
		},
		step{line: "control first steal", status: 2, err: "want take, request"},
	)
}

// TestOpen: the link's secret stands behind a #.
func TestOpen(t *testing.T) {
	r := newRun(desk(t), "")
	if status := r.do(t, "open", "first", "--role", "control"); status != 0 || !strings.Contains(r.out.String(), "#ticket=k1\n") {
		t.Errorf("%d: %s %s", status, &r.out, &r.err)
	}
}
