//go:build integration

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/guest"
	guestclient "github.com/deskfork/deskfork/pkg/guest/client"
)

// TestDeadlineReachesAll: what an exec has started ends at its deadline, also
// when it left the process group and the environment behind.
func TestDeadlineReachesAll(t *testing.T) {
	d := lend(t)
	res, err := d.Execs().Run(t.Context(), api.Exec{
		Shell: "env -i setsid sleep 7654 & (setsid sh -c 'env -i sleep 7653 & sleep 7652' &) ; env -i nohup setsid setsid sleep 7651 & sleep 7650",
		// Time for all of them to have started.
		TimeoutMS: 5000,
	})
	if err != nil || !res.TimedOut {
		t.Fatalf("%+v, %v", res, err)
	}
	if left := d.sh(t, "pgrep -a -f 'sleep 765[0-4]$' || true"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// guestd connects to a desktop's guestd beside the host's own link.
func (d desk) guestd(t *testing.T) *guestclient.Client {
	t.Helper()
	var config guest.Config
	res, err := d.Execs().Run(t.Context(), api.Exec{User: "root", Argv: []string{"cat", guest.ConfigPath}})
	if err == nil {
		err = json.Unmarshal(res.Stdout, &config)
	}
	if err != nil {
		t.Fatalf("token of %s: %v", d.Info.ID, err)
	}
	c := guestclient.New(guestclient.Config{
		Dial:  func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, guest.Port) },
		Token: config.Token, Scale: 8,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }() // ends with ctx
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

// TestHandshakeTwice: one that is repeated changes nothing but the random state
// and, if it was off, the clock.
func TestHandshakeTwice(t *testing.T) {
	d := lend(t)
	c := d.guestd(t)
	generation := strings.TrimSpace(d.get(t, guest.GenerationPath))
	running, err := d.Execs().Start(t.Context(), api.Exec{Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Execs().Forget(context.WithoutCancel(t.Context()), running.ID) })
	d.asRoot(t, "stat -c %i "+guest.GenerationPath+" > /run/e2e-inode")
	uuids := map[string]bool{}
	for range 2 {
		h := guest.Handshake{Now: time.Now(), Entropy: make([]byte, 32), Generation: generation, Workspace: "/dev/vdb"}
		done, err := c.Handshake(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		if done.Renewed || done.Generation != generation || done.Workspace != "/dev/vdb" || uuids[done.UUID] || done.UUID == "" {
			t.Errorf("answer %+v", done)
		}
		uuids[done.UUID] = true
		if done.ClockError() > clockLimit {
			t.Errorf("the clock is off by %s ± %s", done.Skew, done.Margin)
		}
	}
	if got := d.sh(t, "stat -c %i "+guest.GenerationPath+" | diff - /run/e2e-inode && grep -c ' /workspace ' /proc/mounts"); got != "1\n" {
		t.Errorf("the generation was written again, or mounts of /workspace are %q", got)
	}
	if st, err := d.Execs().Get(t.Context(), running.ID); err != nil || !st.Running {
		t.Errorf("the exec: %+v, %v", st, err)
	}
	d.clock(t, "the guest")
}

// TestClockJumps: a wall clock that is days off, as after a long suspension,
// ends no link and no exec before its time, and a handshake puts it right.
func TestClockJumps(t *testing.T) {
	d := lend(t)
	c := d.guestd(t)
	generation := strings.TrimSpace(d.get(t, guest.GenerationPath))
	running, err := d.Execs().Start(t.Context(), api.Exec{Argv: []string{"cat"}, Stdin: true, TimeoutMS: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Execs().Forget(context.WithoutCancel(t.Context()), running.ID) })
	attached, err := c.Exec.Attach(t.Context(), guest.ExecID(running.ID), guestclient.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, days := range []int{+9, -18} {
		d.asRoot(t, fmt.Sprintf("date -s @$(( $(date +%%s) + %d ))", days*24*3600))
		line := fmt.Sprintf("%d days\n", days)
		if _, err := attached.Stdin.Write([]byte(line)); err != nil {
			t.Fatalf("after a jump of %s: %v", line, err)
		}
		got := make([]byte, len(line))
		if _, err := attached.Stdout.Read(got); err != nil || string(got) != line {
			t.Fatalf("after a jump: %q, %v", got, err)
		}
	}
	done, err := c.Handshake(t.Context(), guest.Handshake{Now: time.Now(), Generation: generation})
	if err != nil || done.ClockError() > clockLimit || done.Renewed {
		t.Errorf("%+v, clock off by %s ± %s, %v", done, done.Skew, done.Margin, err)
	}
	d.clock(t, "the guest")
	if st, err := d.Execs().Get(t.Context(), running.ID); err != nil || !st.Running {
		t.Errorf("the exec: %+v, %v", st, err)
	}
}

// TestParkedBrowser: a clone has a browser that nothing shows and that takes no
// time, and its first window is there at once; the next one starts another.
func TestParkedBrowser(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	if d.Info.Origin == api.OriginCold {
		t.Fatalf("this host boots desktops: %s", d.Info.OriginReason)
	}
	before := strings.TrimSpace(d.sh(t, "pgrep -o -x chromium"))
	if all, err := d.Windows().List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("windows %+v, %v; want the desktop and the panel alone", all, err)
	}
	const rest = 10 // seconds
	used := func() string {
		return d.sh(t, "cat $(pgrep -x chromium | sed 's#.*#/proc/&/stat#') | cut -d' ' -f1,14,15; cat /proc/$(pgrep -o -x chromium)/task/*/status | grep ctxt")
	}
	first := used()
	<-time.After(rest * time.Second)
	if last := used(); last != first {
		t.Errorf("a parked browser worked within %d s: processes with their ticks, and switches of the first one, were\n%s and are\n%s", rest, first, last)
	}
	began := time.Now()
	if _, err := d.Launch(t.Context(), api.Launch{Argv: []string{"chromium"}}); err != nil {
		t.Fatal(err)
	}
	w := d.window(t, "of Chromium", ofClass("chromium"))
	t.Logf("the window was there after %s", time.Since(began).Round(10*time.Millisecond))
	if fmt.Sprint(w.PID) != before {
		t.Errorf("the window is of process %d, parked was %s", w.PID, before)
	}
	if got := d.shell(t, "ls /run/user/1000/deskfork-parked"); got.ExitCode == 0 {
		t.Error("the mark of a parked window is still there")
	}
	d.shut(t, w) // which takes a browser that works
}

// TestParkedBrowserGoesOn: a browser that stands still does so only while nobody
// wants anything of it.
func TestParkedBrowserGoesOn(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	kids := d.forks(t, api.Fork{Count: 2})
	const works = "grep -qx 0 /sys/fs/cgroup/system.slice/guestd.service/desktop/parked/cgroup.freeze"
	if got := d.shell(t, works); got.ExitCode == 0 {
		t.Fatal("it does not stand still")
	}
	// Asked to end, it ends.
	d.sh(t, "pkill -x chromium")
	d.until(t, time.Minute, "the browser's end", func(context.Context) error {
		if got := d.shell(t, "pgrep -x chromium"); got.ExitCode == 0 {
			return fmt.Errorf("there are still processes %q", got.Stdout)
		}
		return nil
	})
	// Another window of it is asked for.
	file := kids[0].folder(t) + "/page.html"
	kids[0].put(t, file, "<title>another window</title>")
	if _, err := kids[0].Launch(t.Context(), api.Launch{Argv: []string{"chromium", "--new-window", "file://" + file}}); err != nil {
		t.Fatal(err)
	}
	kids[0].window(t, "of the page", func(w api.Window) bool { return strings.HasPrefix(w.Title, "another window") })
	// Who would thaw it ends.
	kids[1].sh(t, "pkill -x guest-helper")
	kids[1].until(t, time.Minute, "a browser that goes on", func(context.Context) error {
		if got := kids[1].shell(t, works); got.ExitCode != 0 {
			return fmt.Errorf("it stands still: %s", got.Stderr)
		}
		return nil
	})
}

// TestParkedBrowsersDiffer: pages in browsers that were parked as one draw
// different random numbers, the first time. A start with options shows what was
// parked as well.
func TestParkedBrowsersDiffer(t *testing.T) {
	beside(t)
	const page = `<title>none</title><script>document.title = "uuid " + crypto.randomUUID()</script>`
	seen := map[string]bool{}
	for _, start := range []func(url string) api.Launch{
		func(url string) api.Launch { return api.Launch{URL: url} },
		func(url string) api.Launch {
			return api.Launch{Argv: []string{"chromium", "--disable-sync", url}}
		},
	} {
		d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
		file := d.folder(t) + "/page.html"
		d.put(t, file, page)
		if _, err := d.Launch(t.Context(), start("file://"+file)); err != nil {
			t.Fatal(err)
		}
		title := d.window(t, "of the page", func(w api.Window) bool { return strings.HasPrefix(w.Title, "uuid ") }).Title
		if seen[title] {
			t.Errorf("both drew %s", title)
		}
		seen[title] = true
	}
	t.Logf("drawn: %v", seen)
}

// TestAccessibility: a client of AT-SPI sees the desktop's programs.
func TestAccessibility(t *testing.T) {
	d := lend(t)
	d.launch(t, "mousepad")
	d.window(t, "of the editor", ofClass("mousepad"))
	// The registry's root object lists the programs that have made themselves known.
	const ask = `a=$(busctl --address="$DBUS_SESSION_BUS_ADDRESS" call org.a11y.Bus /org/a11y/bus org.a11y.Bus GetAddress | cut -d'"' -f2)
root=/org/a11y/atspi/accessible/root
for name in $(busctl --address="$a" call org.a11y.atspi.Registry $root org.a11y.atspi.Accessible GetChildren | grep -o ':[0-9.]*'); do
busctl --address="$a" get-property "$name" $root org.a11y.atspi.Accessible Name
done`
	d.until(t, 2*time.Minute, "programs known to AT-SPI", func(ctx context.Context) error {
		res, err := d.Execs().Run(ctx, api.Exec{Shell: ask})
		if err != nil {
			return err
		}
		for _, want := range []string{"xfce4-panel", "xfdesktop", "mousepad"} {
			if !strings.Contains(strings.ToLower(string(res.Stdout)), want) {
				return errors.New("without " + want + ": " + string(res.Stdout) + string(res.Stderr))
			}
		}
		return nil
	})
}

// TestFonts: there is a glyph for every script that the image promises, and an
// emoji is drawn in its colours.
func TestFonts(t *testing.T) {
	d := lend(t)
	const text = "aé ßЖ漢字かなカ한글語 😀🚀"
	for _, r := range text {
		if got := d.sh(t, fmt.Sprintf("fc-list ':charset=%x' family", r)); got == "" {
			t.Errorf("no font has %c", r)
		}
	}
	file := d.folder(t) + "/text.txt"
	d.put(t, file, text)
	d.launch(t, "mousepad", file)
	w := d.window(t, "of the editor", ofClass("mousepad"))
	d.until(t, time.Minute, "a yellow face", func(context.Context) error {
		img, _ := d.shot(t, client.ScreenshotOptions{})
		yellow := 0
		for y := w.Y; y < w.Y+w.Height; y++ {
			for x := w.X; x < w.X+w.Width; x++ {
				if r, g, b, _ := img.At(x, y).RGBA(); r > 0xe000 && g > 0x9000 && b < 0x7000 {
					yellow++
				}
			}
		}
		if yellow < 40 {
			return fmt.Errorf("%d yellow pixels", yellow)
		}
		return nil
	})
}
