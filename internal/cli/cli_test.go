package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

var update = flag.Bool("update", false, "write golden files anew")

// run is one command line against a fake server.
type run struct {
	cfg      cli.Config
	out, err bytes.Buffer
}

func newRun(s *clienttest.Server, stdin string) *run {
	r := &run{}
	r.cfg = cli.Config{
		In: strings.NewReader(stdin), Out: &r.out, Err: &r.err, Version: "v1.2.3",
		Address: s.URL, Token: clienttest.Token, DataDir: "/var/lib/deskfork",
		Now: func() time.Time { return time.Date(2026, 1, 2, 6, 4, 5, 0, time.UTC) },
		Checks: func(context.Context, string) []api.Check {
			return []api.Check{{Name: "tool-mke2fs", OK: true, Level: "ok", Detail: "/sbin/mke2fs"}}
		},
	}
	return r
}

func (r *run) do(t *testing.T, args ...string) int {
	t.Helper()
	return cli.Run(t.Context(), r.cfg, args)
}

// desk starts a server with one desktop, named first.
func desk(t *testing.T) *clienttest.Server {
	t.Helper()
	s := clienttest.New(t)
	s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "first", Labels: map[string]string{"team": "qa"}})
	return s
}

func TestCommands(t *testing.T) {
	for _, tc := range []struct {
		name   string
		line   string // split at spaces
		stdin  string
		status int
		out    string // the whole of standard output
		err    string // part of standard error
	}{
		{name: "ls", line: "ls", out: "" +
			"ID      NAME    IMAGE         STATE   SHAPE    DISPLAY    ORIGIN     MEM        AGE   LABELS\n" +
			"d0001   first   debian-xfce   ready   medium   1280x800   template   96.0 MiB   2 h   team=qa\n"},
		{name: "ls quiet", line: "ls -q", out: "d0001\n"},
		{name: "ls filtered", line: "ls -q --filter label=team=dev", out: ""},
		{name: "ls json", line: "ls --json --filter state=failed", out: "{\n  \"desktops\": []\n}\n"},
		{name: "ls bad filter", line: "ls --filter colour=red", status: 2, err: "no such kind"},
		{name: "create", line: "create --name second", out: "d0002\n", err: "drawn         1.5 s\n"},
		{name: "create without waiting", line: "create debian-xfce --no-wait", out: "d0002\n"},
		{name: "create unknown image", line: "create windows-11", status: 4, err: `admission: no image "windows-11" (see vmhost image ls)`},
		{name: "create taken name", line: "create --name first", status: 5, err: "taken"},
		{name: "create bad display", line: "create --display 10x10", status: 2, err: "320x200"},
		{name: "create bad size and label", line: "create --workspace-size 1 --label x", status: 2, err: "KEY=VALUE"},
		{name: "wait", line: "wait first --stage link", out: "d0001\n"},
		{name: "rm", line: "rm first", out: "first\n"},
		{name: "rm many", line: "rm nobody first", status: 4, out: "first\n", err: `no desktop "nobody"`},
		{name: "rm force", line: "rm -f nobody first", out: "first\n"},
		{name: "rm nothing by force", line: "rm -f", out: ""},
		{name: "rm nothing", line: "rm", status: 2, err: "usage: vmhost rm D..."},
		{name: "rm json", line: "rm --json first", out: "{\n  \"removed\": [\n    \"first\"\n  ]\n}\n"},
		{name: "exec", line: "exec first -- echo hello world", out: "hello world\n"},
		{name: "exec without dashes", line: "exec first echo -n", out: "-n\n"},
		{name: "exec status", line: "exec first -- fail", status: 3, err: "fail: as asked\n"},
		{name: "exec shell", line: "exec --shell first true", out: ""},
		{name: "exec shell of words", line: "exec --shell first a b", status: 2, err: "in quotes"},
		{name: "exec unknown desktop", line: "exec nobody -- true", status: 4, err: "nobody"},
		{name: "exec nothing", line: "exec first", status: 2, err: "name a program"},
		{name: "exec input", line: "exec -i first -- cat", stdin: "in and out", out: "in and out"},
		{name: "exec input unread", line: "exec -i first -- true", stdin: "unread"},
		{name: "exec tty without one", line: "exec -it first -- bash", status: 2, err: "terminal"},
		{name: "exec attach unknown", line: "exec --attach x9 first", status: 4, err: "x9"},
		{name: "exec attach and program", line: "exec --attach x9 first -- true", status: 2, err: "no program"},
		{name: "click", line: "click first 10 20 --count 2 --button right --mods ctrl,shift"},
		{name: "click off screen", line: "click first 9999 20", status: 2, err: "off the screen"},
		{name: "click words", line: "click first ten 20", status: 2, err: "whole number"},
		{name: "click short of numbers", line: "click first 10", status: 2, err: "usage: vmhost click D X Y"},
		{name: "drag of one point", line: "drag first 1 2", status: 2, err: "usage"},
		{name: "drag odd", line: "drag first 1 2 3 4 5", status: 2, err: "two points"},
		{name: "scroll nowhere", line: "scroll first 1 2", status: 2, err: "--dy"},
		{name: "type nothing", line: "type first -", status: 2, err: "empty"},
		{name: "type latin1", line: "type first -", stdin: "\xe4", status: 2, err: "UTF-8"},
		{name: "windows", line: "windows first", out: "" +
			"ID   TYPE      STATE   X     Y     SIZE       CLASS         TITLE\n" +
			"11   desktop   -       0     0     1280x800   xfdesktop     Desktop\n" +
			"12   dock      -       400   752   480x48     xfce4-panel   xfce4-panel\n"},
		{name: "window closed", line: "windows first close 12"},
		{name: "window unknown", line: "windows first close 99", status: 4, err: "no window 99"},
		{name: "window op", line: "windows first explode 12", status: 2, err: "none of focus"},
		{name: "window numbers", line: "windows first move 12 1", status: 2, err: "2 numbers"},
		{name: "launch", line: "launch first -- mousepad", out: "4242\n"},
		{name: "launch url", line: "launch first --url https://example.org", out: "4242\n"},
		{name: "launch both", line: "launch first --url https://example.org -- x", status: 2, err: "one of them"},
		{name: "logs", line: "logs first", out: "[    0.000000] Linux version 6.1.0\n"},
		{name: "logs of qemu", line: "logs --source qemu first", out: "qemu: all quiet\n"},
		{name: "image ls", line: "image ls", out: "" +
			"NAME          TAGS     DIGEST         SIZE      DISK      IN USE   AGE\n" +
			"debian-xfce   latest   0123456789ab   2.0 GiB   8.0 GiB   0        3 h\n"},
		{name: "image seal", line: "image seal debian-xfce --shape large", out: "t0001\n", err: "(no window came); when the host is less busy, make another: vmhost image seal debian-xfce --again"},
		{name: "image seal again", line: "image seal debian-xfce --again", out: "t0001\n", err: "a minute or more"},
		{name: "image seal unknown", line: "image seal nothing", status: 4, err: "nothing"},
		{name: "image rm unknown", line: "image rm nothing", status: 4, err: "nothing"},
		{name: "image rm", line: "image rm debian-xfce", out: "debian-xfce\n"},
		{name: "token create", line: "token create ci --scope read", out: "dft_secret1\n"},
		{name: "token rm unknown", line: "token rm t9", status: 4, err: "t9"},
		{name: "forward bad port", line: "forward first 99999", status: 2, err: "guest's port"},
		{name: "forward unknown", line: "forward nobody 0:80", status: 4, err: "nobody"},
		{name: "version", line: "version", out: "v1.2.3\n"},
		{name: "version json", line: "version --json", out: "{\n  \"version\": \"v1.2.3\"\n}\n"},
		{name: "unknown command", line: "frobnicate", status: 2, err: `unknown command "frobnicate"`},
		{name: "unknown flag", line: "ls --nonsense", status: 2, err: "unknown flag"},
		{name: "cp nowhere", line: "cp a b", status: 2, err: "neither side"},
		{name: "cp between", line: "cp a:/x b:/y", status: 2, err: "vmhost cp a:/x - | vmhost cp - b:/y"},
		{name: "cp missing here", line: "cp /does/not/exist first:/tmp", status: 4, err: "no such file"},
		{name: "cp missing there", line: "cp first:/nope -", status: 4, err: "/nope"},
		{name: "cp from input", line: "cp - first:/tmp/x", stdin: "piped"},
		{name: "problem as json", line: "inspect nobody --json", status: 4, err: `"code":"not_found"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRun(desk(t), tc.stdin)
			if got := r.do(t, strings.Fields(tc.line)...); got != tc.status {
				t.Errorf("status %d, want %d; %s", got, tc.status, &r.err)
			}
			if diff := cmp.Diff(tc.out, r.out.String()); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(r.err.String(), tc.err) || (tc.err == "" && tc.status != 0 && !strings.Contains(tc.line, "exec")) {
				t.Errorf("standard error %q, want %q in it", &r.err, tc.err)
			}
		})
	}
}

// TestActions: what the pointer and keyboard commands send.
func TestActions(t *testing.T) {
	at := func(n int) *int { return &n }
	for _, tc := range []struct {
		line, stdin string
		want        []api.Action
	}{
		{"click first 10 20", "", []api.Action{{Kind: "click", X: at(10), Y: at(20), Button: "left", Count: 1}}},
		{"click first 1 2 --button right --count 2 --mods ctrl,shift", "", []api.Action{
			{Kind: "click", X: at(1), Y: at(2), Button: "right", Count: 2, Mods: []string{"ctrl", "shift"}},
		}},
		{"move first 0 0", "", []api.Action{{Kind: "move", X: at(0), Y: at(0)}}},
		{"drag first 1 2 3 4 --duration 1500ms", "", []api.Action{
			{Kind: "drag", Path: [][2]int{{1, 2}, {3, 4}}, Button: "left", DurationMS: 1500},
		}},
		{"scroll first 5 6 --dx -2 --dy 3", "", []api.Action{{Kind: "scroll", X: at(5), Y: at(6), DX: -2, DY: 3}}},
		{"key first ctrl+a Delete --repeat 2", "", []api.Action{
			{Kind: "key", Keys: "ctrl+a", Repeat: 2}, {Kind: "key", Keys: "Delete", Repeat: 2},
		}},
		{"key first Right --hold 2s --rate 30", "", []api.Action{{Kind: "hold", Keys: "Right", DurationMS: 2000, PerSecond: 30}}},
		{"type first Grüße", "", []api.Action{{Kind: "text", Text: "Grüße"}}},
		{"type first - --rate 9", "two\nlines", []api.Action{{Kind: "text", Text: "two\nlines", PerSecond: 9}}},
		{"type first -", strings.Repeat("a", 65535) + "漢", []api.Action{
			{Kind: "text", Text: strings.Repeat("a", 65535)}, {Kind: "text", Text: "漢"},
		}},
	} {
		t.Run(tc.line, func(t *testing.T) {
			s := desk(t)
			r := newRun(s, tc.stdin)
			if status := r.do(t, strings.Fields(tc.line)...); status != 0 || r.out.Len() > 0 {
				t.Fatalf("status %d, %s%s", status, &r.out, &r.err)
			}
			if diff := cmp.Diff(tc.want, s.Actions("first")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHolder(t *testing.T) {
	for _, line := range []string{
		"click first 1 2", "type first x", "clipboard first", "windows first", "windows first focus 12",
	} {
		s := desk(t)
		r := newRun(s, "")
		if status := r.do(t, append(strings.Fields(line), "--holder", "h7", "--epoch", "3")...); status != 0 {
			t.Fatalf("%s: status %d, %s", line, status, &r.err)
		}
		if h := s.Header(); h.Get(api.HeaderHolder) != "h7" || h.Get(api.HeaderEpoch) != "3" {
			t.Errorf("%s: %v", line, h)
		}
	}
}

func TestClipboard(t *testing.T) {
	s := desk(t)
	if status := newRun(s, "from a pipe").do(t, "clipboard", "first", "-"); status != 0 {
		t.Fatal(status)
	}
	r := newRun(s, "")
	if status := r.do(t, "clipboard", "first"); status != 0 || r.out.String() != "from a pipe" {
		t.Errorf("%d, %q", status, &r.out)
	}
	r = newRun(s, "")
	if status := r.do(t, "clipboard", "first", "--type", "text/html"); status != 0 || r.out.Len() != 0 {
		t.Errorf("%d, %q", status, &r.out)
	}
}

func TestScreenshot(t *testing.T) {
	s := desk(t)
	r := newRun(s, "")
	if status := r.do(t, "screenshot", "first", "-o", "-"); status != 0 || !strings.HasPrefix(r.out.String(), "\x89PNG") {
		t.Errorf("%d, %.20q", status, &r.out)
	}
	file := filepath.Join(t.TempDir(), "a.jpg")
	r = newRun(s, "")
	if status := r.do(t, "screenshot", "first", "-o", file, "--region", "1,2,30x40", "--cursor"); status != 0 {
		t.Fatalf("%d, %s", status, &r.err)
	}
	if raw, err := os.ReadFile(file); err != nil || len(raw) == 0 {
		t.Error(err)
	}
	asked := s.Requests()
	want := "GET /v1/desktops/first/screenshot?cursor=true&format=jpeg&height=40&width=30&x=1&y=2"
	if got := asked[len(asked)-1]; got != want {
		t.Errorf("asked %s", got)
	}
}

// TestJSON: what programs read is JSON and has these members.
func TestJSON(t *testing.T) {
	for _, tc := range []struct {
		line   string
		member []string
	}{
		{"ls --json", []string{"desktops"}},
		{"inspect first", []string{"id", "name", "state", "stages", "display"}},
		{"create --json", []string{"id", "state"}},
		{"wait first --json", []string{"id"}},
		{"exec --json first -- true", []string{"id", "exit_code", "running"}},
		{"exec --json -d first -- wait", []string{"id", "pid"}},
		{"click first 1 2 --json", []string{"results", "width", "height", "seq"}},
		{"windows first --json", []string{"windows"}},
		{"clipboard first --json", []string{"type", "data"}},
		{"launch --json first -- x", []string{"pid"}},
		{"image ls --json", []string{"images"}},
		{"image inspect debian-xfce", []string{"digest", "size_bytes"}},
		{"token create ci --json", []string{"id", "secret"}},
		{"token ls --json", []string{"tokens"}},
		{"doctor --json", []string{"ok", "local", "server"}},
		{"version --server --json", []string{"version", "accelerator"}},
		{"rm first --json", []string{"removed"}},
	} {
		t.Run(tc.line, func(t *testing.T) {
			r := newRun(desk(t), "")
			if status := r.do(t, strings.Fields(tc.line)...); status != 0 {
				t.Fatalf("status %d, %s", status, &r.err)
			}
			var got map[string]any
			if err := json.Unmarshal(r.out.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, &r.out)
			}
			for _, m := range tc.member {
				if _, ok := got[m]; !ok {
					t.Errorf("no member %q in %s", m, &r.out)
				}
			}
			if r.err.Len() > 0 {
				t.Errorf("standard error: %s", &r.err)
			}
		})
	}
}

func TestCreateOfFailing(t *testing.T) {
	s := desk(t)
	p := api.Errorf(api.CodeGuestFailed, "guestd did not answer within 4m0s")
	p.Stage, p.Log = "link", "Kernel panic - not syncing\n"
	s.SetFailure("first", p)
	r := newRun(s, "")
	if status := r.do(t, "wait", "first"); status != 8 {
		t.Errorf("status %d", status)
	}
	want := "vmhost: link: guestd did not answer within 4m0s\n  | Kernel panic - not syncing\n"
	if diff := cmp.Diff(want, r.err.String()); diff != "" {
		t.Error(diff)
	}
}
