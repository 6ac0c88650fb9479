//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// counting starts a counter in a desktop; it is judged as the scene's.
func (d desk) counting(t *testing.T) scene {
	t.Helper()
	s := scene{dir: d.folder(t), execs: map[string]api.ExecStatus{}}
	d.put(t, s.script(), scenePy)
	s.start(t, d, "count")
	s.count(t, d, "parent")
	return s
}

// TestForksOfForks forks the child of a child, five deep. Each keeps what its
// ancestors had and adds to it; the eldest notices nothing.
func TestForksOfForks(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	s := d.counting(t)
	d.sh(t, "echo 0 > /workspace/lineage; echo 0 > ~/lineage")
	family, want := []desk{d}, "0\n"
	for depth := 1; depth <= 5; depth++ {
		kid := family[depth-1].fork(t, api.Fork{Labels: map[string]string{"depth": fmt.Sprint(depth)}})
		if kid.Info.Parent != family[depth-1].Info.ID || kid.Info.Origin != api.OriginFork {
			t.Errorf("depth %d: %+v", depth, kid.Info)
		}
		its := s.again()
		its.count(t, kid, fmt.Sprintf("depth %d", depth))
		want += fmt.Sprintf("%d\n", depth)
		got := kid.sh(t, fmt.Sprintf("for f in /workspace/lineage ~/lineage; do echo %d >> $f; cat $f; done", depth))
		if got != want+want {
			t.Errorf("depth %d has %q", depth, got)
		}
		family = append(family, kid)
	}
	s.count(t, d, "the eldest")
	if got := d.sh(t, "cat /workspace/lineage ~/lineage"); got != "0\n0\n" {
		t.Errorf("the eldest has %q", got)
	}
	tree, err := host.Client.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{}
	for _, n := range tree.Nodes {
		parents[n.ID] = n.Parent
	}
	for i, kid := range family[1:] {
		if parents[kid.Info.ID] != family[i].Info.ID {
			t.Errorf("in the tree %s comes from %q, not from %s", kid.Info.ID, parents[kid.Info.ID], family[i].Info.ID)
		}
	}
}

// TestForkOfWhatStands forks a paused desktop, which stays paused, five times at
// once, and a suspended one, which stays suspended. All children go on from
// where it stood.
func TestForkOfWhatStands(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	s := d.counting(t)
	for _, stand := range []struct {
		state api.DesktopState
		do    func(context.Context) (api.Desktop, error)
		n     int
	}{
		{api.StatePaused, d.Pause, 5},
		{api.StateSuspended, d.Suspend, 2},
	} {
		t.Run(string(stand.state), func(t *testing.T) {
			if _, err := stand.do(t.Context()); err != nil {
				t.Fatal(err)
			}
			kids := d.forks(t, api.Fork{Count: stand.n, Name: string(stand.state)})
			for i, kid := range kids {
				its := s.again()
				its.count(t, kid, kid.Info.Name)
				if want := fmt.Sprintf("%s-%d", stand.state, i+1); kid.Info.Name != want {
					t.Errorf("child is named %s, want %s", kid.Info.Name, want)
				}
			}
			if now, err := d.Get(t.Context()); err != nil || now.State != stand.state {
				t.Errorf("the parent is %s, %v", now.State, err)
			}
			for _, kid := range kids {
				kid.remove(t)
			}
			if _, err := d.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.count(t, d, "parent")
		})
	}
}

// TestForkManyAtOnce makes five children of a running desktop: it stands still
// once, and all of them, and it, go on from the same number.
func TestForkManyAtOnce(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	s := d.counting(t)
	kids := d.forks(t, api.Fork{Count: 5})
	for _, kid := range kids {
		its := s.again()
		its.count(t, kid, kid.Info.Name)
	}
	s.count(t, d, "parent")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for event, err := range host.Client.Events(ctx, client.EventOptions{Desktop: d.Info.ID, After: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == "desktop.forked" {
			if made, _ := event.Data["children"].([]any); len(made) != 5 {
				t.Errorf("the first fork was %+v", event)
			}
			return
		}
	}
}

// TestForkAtATextConsole: the child shows what the parent shows, from the
// framebuffer alone, and so does a clone of a snapshot and a resumed desktop.
func TestForkAtATextConsole(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	desktop, _ := d.shot(t, client.ScreenshotOptions{})
	d.asRoot(t, `printf '\033[2J\033[H%s\n' "text on a console" "another line" > /dev/tty9`)
	d.terminal(t, 9)
	d.still(t)
	want, _ := d.shot(t, client.ScreenshotOptions{})
	if differs(desktop, want) == (image.Rectangle{}) {
		t.Fatal("the terminal was not switched to")
	}
	kid := d.fork(t, api.Fork{})
	shows(t, "child", want, kid)
	shows(t, "parent", want, d)
	kid.remove(t)
	made := clone(t, d.keep(t).ID)
	shows(t, "clone of the snapshot", want, made)
	made.remove(t)
	if _, err := d.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(t, "resumed", want, d)
	d.asRoot(t, "printf 'a third line\n' > /dev/tty9")
	d.until(t, time.Minute, "more text", func(context.Context) error {
		if now, _ := d.shot(t, client.ScreenshotOptions{}); differs(want, now) == (image.Rectangle{}) {
			return errors.New("the console does not change")
		}
		return nil
	})
	d.terminal(t, 7)
	d.until(t, time.Minute, "the desktop again", func(context.Context) error {
		if now, _ := d.shot(t, client.ScreenshotOptions{}); differs(desktop, now) != (image.Rectangle{}) {
			return errors.New("the screen is another one")
		}
		return nil
	})
}

// terminal switches to a virtual terminal: VT_ACTIVATE, VT_WAITACTIVE.
func (d desk) terminal(t *testing.T, n int) {
	t.Helper()
	d.asRoot(t, fmt.Sprintf(`exec python3 -c 'import fcntl; t = open("/dev/tty0"); [fcntl.ioctl(t, what, %d) for what in (0x5606, 0x5607)]'`, n))
}

// shows demands that a desktop's screen is a picture.
func shows(t *testing.T, who string, want image.Image, d desk) {
	t.Helper()
	now, _ := d.shot(t, client.ScreenshotOptions{})
	if r := differs(want, now); r != (image.Rectangle{}) {
		d.picture(t)
		t.Errorf("%s: the screen differs at %v", who, r)
	}
}

// differs is the smallest rectangle around all pixels that are not the same.
func differs(a, b image.Image) image.Rectangle {
	if a.Bounds() != b.Bounds() {
		return a.Bounds().Union(b.Bounds())
	}
	var r image.Rectangle
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			if a.At(x, y) != b.At(x, y) {
				r = r.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return r
}

// TestForkWhileBooting forks a desktop that shows its firmware's screen, or its
// kernel's: the child shows it too.
func TestForkWhileBooting(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64, Cold: true}, api.StageMachine)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		before, _ := d.shot(t, client.ScreenshotOptions{})
		if uniform(before) {
			continue
		}
		made, err := d.Fork(ctx, api.Fork{}, client.Until(api.StageMachine), client.Within(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		kid := ephemeral(t, made[0])
		got, _ := kid.shot(t, client.ScreenshotOptions{})
		if now, _ := d.shot(t, client.ScreenshotOptions{}); differs(before, now) != (image.Rectangle{}) {
			kid.remove(t) // it went on meanwhile: what the instant showed is not known
			continue
		}
		// The child runs, and a cursor of the text console blinks: it takes less than a letter.
		const letterWidth, letterHeight = 10, 16
		if r := differs(before, got); r.Dx() > letterWidth || r.Dy() > letterHeight {
			t.Errorf("the child's screen differs at %v", r)
		}
		if now, err := kid.Get(ctx); err != nil || now.State != api.StateStarting {
			t.Errorf("the child is %+v, %v", now, err)
		}
		return
	}
	t.Error("the screen never stood still")
}

func uniform(img image.Image) bool {
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if img.At(x, y) != img.At(0, 0) {
				return false
			}
		}
	}
	return true
}
