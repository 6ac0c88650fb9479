//go:build integration

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// short is how many turns the scene goes through when nobody asks for more: the
// first of each verb.
const short = 5

// cycles is how often the scene goes through a verb: DESKFORK_E2E_CYCLES, or short.
func cycles(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DESKFORK_E2E_CYCLES")
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DESKFORK_E2E_CYCLES=%s: want a number, %v", text, err)
	}
	return n
}

// long says that somebody has asked for more than each verb once.
func long(t *testing.T) bool { t.Helper(); return cycles(t) > short }

// stageAt is a scene, the desktop that it is in, and the test that they last for.
type stageAt struct {
	scene
	desk

	whole *testing.T
}

// turn takes a scene through a verb, to where it goes on.
type turn struct {
	name string
	run  func(t *testing.T, at stageAt, who string) stageAt
}

func turns() []turn {
	return []turn{
		{"fork, the child goes on", forkTurn(true)},
		{"suspend", suspendTurn},
		{"snapshot", snapshotTurn},
		{"restore", restoreTurn},
		{"pause", pauseTurn},
		{"fork, the parent goes on", forkTurn(false)},
	}
}

// TestScene takes what goes on in a desktop through all verbs in a row, and looks
// at the file systems in the end.
func TestScene(t *testing.T) {
	beside(t)
	at := stageAt{desk: breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn), whole: t}
	at.scene = at.stage(t)
	n, began := cycles(t), time.Now()
	for i := range n {
		one, from := turns()[i%len(turns())], time.Now()
		if !t.Run(fmt.Sprintf("%d %s", i+1, one.name), func(t *testing.T) {
			at.types(t, at.desk, fmt.Sprintf("%d: ", i+1))
			at = one.run(t, at, strconv.Itoa(i+1))
		}) {
			t.Fatalf("cycle %d of %d failed", i+1, n)
		}
		t.Logf("cycle %d took %s, the counter is at %d", i+1, time.Since(from).Round(100*time.Millisecond), at.counted)
	}
	t.Logf("%d cycles took %s", n, time.Since(began).Round(time.Second))
	at.frozenClean(t)
	at.sealedClean(t)
}

// forkTurn forks while somebody is attached to the parent's counter, and removes
// the one that does not go on.
func forkTurn(childGoesOn bool) func(t *testing.T, at stageAt, who string) stageAt {
	return func(t *testing.T, at stageAt, who string) stageAt {
		t.Helper()
		seen, stop := at.follow(t, at.desk)
		kid := stageAt{scene: at.again(), desk: at.fork(at.whole, api.Fork{}), whole: at.whole}
		kid.holds(t, kid.desk, "child "+who)
		at.holds(t, at.desk, "parent "+who)
		if _, err := seen.beyond(t.Context(), at.counted); err != nil {
			t.Errorf("who was attached to the parent: %v", err)
		}
		stop()
		if childGoesOn {
			at, kid = kid, at
		}
		kid.remove(t)
		at.look(t, at.desk)
		return at
	}
}

func (d desk) remove(t *testing.T) {
	t.Helper()
	if err := d.Delete(t.Context()); err != nil {
		t.Errorf("delete %s: %v", d.Ref(), err)
	}
}

func suspendTurn(t *testing.T, at stageAt, who string) stageAt {
	t.Helper()
	before, err := at.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now, err := at.Suspend(t.Context()); err != nil || now.State != api.StateSuspended {
		t.Fatalf("suspend: %+v, %v", now, err)
	}
	if left := pidsOf(t, before.Incarnation); len(left) > 0 {
		t.Errorf("the machine of a suspended desktop runs: %v", left)
	}
	after, err := at.Resume(t.Context())
	if err != nil || after.State != api.StateReady || after.ID != before.ID || after.Incarnation == before.Incarnation {
		t.Fatalf("resume: %+v, %v, was %+v", after, err, before)
	}
	at.holds(t, at.desk, "resumed "+who)
	return at
}

// snapshotTurn goes on in a clone of a snapshot, without it and its desktop.
func snapshotTurn(t *testing.T, at stageAt, who string) stageAt {
	t.Helper()
	snap := at.keep(at.whole)
	made := stageAt{scene: at.again(), desk: clone(at.whole, snap.ID), whole: at.whole}
	at.holds(t, at.desk, "sealed "+who)
	at.remove(t)
	if err := host.Client.Snapshots().Remove(t.Context(), snap.ID); err != nil {
		t.Error(err)
	}
	made.holds(t, made.desk, "clone "+who)
	return made
}

// restoreTurn makes a snapshot, lets things happen and takes them back.
func restoreTurn(t *testing.T, at stageAt, who string) stageAt {
	t.Helper()
	snap := at.keep(t)
	lost := stageAt{scene: at.again(), desk: at.desk}
	lost.holds(t, at.desk, "lost "+who)
	if err := at.Clipboard().SetText(t.Context(), "lost"); err != nil {
		t.Fatal(err)
	}
	later, err := at.Execs().Get(t.Context(), at.execs["count"].ID)
	if err != nil {
		t.Fatal(err)
	}
	before := at.Info
	after, err := at.Restore(t.Context(), snap.Name)
	if err != nil || after.ID != before.ID || after.Name != before.Name {
		t.Fatalf("restore: %+v, %v", after, err)
	}
	now, err := at.Execs().Get(t.Context(), at.execs["count"].ID)
	if err != nil || now.Out >= later.Out {
		t.Errorf("restore has taken nothing back: the counter said %d bytes, then %d, %v", later.Out, now.Out, err)
	}
	at.holds(t, at.desk, "restored "+who)
	return at
}

func pauseTurn(t *testing.T, at stageAt, who string) stageAt {
	t.Helper()
	if _, err := at.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := at.Exec(t.Context(), "true")
	code(t, err, api.CodePrecondition)
	if _, err := at.Screenshot(t.Context()); err != nil {
		t.Errorf("the screen of a paused desktop: %v", err)
	}
	if _, err := at.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	at.holds(t, at.desk, "paused "+who)
	return at
}

// frozenClean checks the workspace's file system while it stands still. The
// system's is not to be checked so: programs keep deleted files open there, which
// e2fsck takes for damage in what is mounted. sealedClean sees to it.
func (d desk) frozenClean(t *testing.T) {
	t.Helper()
	d.asRoot(t, "set -e; fsfreeze -f /workspace; r=0; e2fsck -fn /dev/vdb >/run/fsck 2>&1 || r=$?; fsfreeze -u /workspace; cat /run/fsck >&2; exit $r")
}

// repaired are what e2fsck may do to a file system that was in use: what its
// mount would do, too.
var repaired = regexp.MustCompile(`^(.*: recovering journal|.*: Clearing orphaned inode .*|.*: [0-9]+/[0-9]+ files .*|)$`)

// sealedClean checks the file systems of a snapshot's disks as the host has them:
// their journals are replayed and deleted files are let go, as a mount does it;
// nothing else may be wrong.
func (d desk) sealedClean(t *testing.T) {
	t.Helper()
	snap := d.keep(t)
	for _, disk := range []string{"system", "workspace"} {
		raw := filepath.Join(t.TempDir(), disk+".raw")
		for _, argv := range [][]string{
			{"qemu-img", "convert", "-O", "raw", filepath.Join(host.Data, "templates", snap.ID, disk+".qcow2"), raw},
			{"e2fsck", "-f", "-p", raw},
			{"e2fsck", "-f", "-n", raw},
		} {
			out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
			if exit := new(exec.ExitError); argv[2] == "-p" && errors.As(err, &exit) && exit.ExitCode() == 1 {
				err = nil // something was repaired
			}
			for line := range strings.Lines(string(out)) {
				if argv[2] == "-p" && !repaired.MatchString(strings.TrimSpace(line)) {
					t.Errorf("%s: e2fsck says %s", disk, line)
				}
			}
			if err != nil {
				t.Errorf("%v: %v\n%s", argv, err, out)
			}
		}
		if err := os.Remove(raw); err != nil {
			t.Error(err)
		}
	}
}
