package demo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/demo"
	"github.com/deskfork/deskfork/internal/demo/demotest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// shop is a desktop on which the demonstration can be given.
func shop(t *testing.T) (*clienttest.Server, *client.Client, *client.Desktop) {
	t.Helper()
	s := clienttest.New(t)
	demotest.Prepare(s)
	id := s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "first", Labels: map[string]string{"team": "a"}})
	c, err := client.New(s.URL, client.WithToken(clienttest.Token))
	if err != nil {
		t.Fatal(err)
	}
	return s, c, c.Desktop(id)
}

func TestForks(t *testing.T) {
	s, c, d := shop(t)
	var mu sync.Mutex
	told := map[string]bool{}
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told[fmt.Sprintf(format, args...)] = true
	}
	f, err := demo.Forks(t.Context(), c, d, say)
	if err != nil {
		t.Fatal(err)
	}
	if f.Session != demotest.Session || !f.SignedIn || f.Pause != 31500*time.Microsecond || f.Parent.Proof != "still signed in, session 12ab34cd, no order" {
		t.Errorf("%q, %t, %s, %q", f.Session, f.SignedIn, f.Pause, f.Parent.Proof)
	}
	want := []string{
		"first-demo-1 orders a book: 2 x A Room of One's Own",
		"first-demo-2 makes a folder: /workspace/letters, a file", // the fake's folders are files
		"first-demo-3 writes a note: Parent and children are one machine up to the fork.",
		"first-demo-4 runs a program: 815915283247897734345611269596115894272000000000",
		"first-demo-5 signs out: session 12ab34cd ended, here only",
	}
	var got []string
	for _, child := range f.Children {
		line := fmt.Sprintf("%s %s: %s", child.Name, child.Task, child.Proof)
		got = append(got, line)
		if !told[line] {
			t.Errorf("it did not tell %q", line)
		}
		if child.Node.MemoryPrivate != 24<<20 || !isPNG(child.Picture) || child.Usable <= 0 {
			t.Errorf("%s: %+v, %s", child.Name, child.Node, child.Usable)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !isPNG(f.Parent.Picture) || !isPNG(f.Sheet) {
		t.Error("pictures are missing")
	}
	onlyParent(t, c)
	again, err := demo.Forks(t.Context(), c, d, say)
	if err != nil || again.SignedIn || again.Session != f.Session || len(again.Children) != 5 {
		t.Errorf("again: %t, %q, %v", again.SignedIn, again.Session, err)
	}
	onlyParent(t, c)
	if n := len(slices.DeleteFunc(s.Requests(), func(r string) bool { return !strings.HasSuffix(r, "/launch") })); n != 1 {
		t.Errorf("the browser was opened %d times", n)
	}
}

func isPNG(b []byte) bool { return strings.HasPrefix(string(b), "\x89PNG") }

func onlyParent(t *testing.T, c *client.Client) {
	t.Helper()
	list, err := c.Desktops().List(t.Context(), client.Filter{})
	if err != nil || len(list) != 1 || list[0].Name != "first" {
		t.Errorf("left behind: %d desktops, %v", len(list), err)
	}
}

// TestForksFail: whatever goes wrong is told with the child's name, and no child
// is left behind.
func TestForksFail(t *testing.T) {
	s, c, d := shop(t)
	if _, err := demo.Forks(t.Context(), c, d, func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.OnAction(func(*clienttest.Guest, api.Action) { cancel() })
	if _, err := demo.Forks(ctx, c, d, func(string, ...any) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	onlyParent(t, c)
	if err := d.Windows().Close(t.Context(), 12); err != nil { // the panel
		t.Fatal(err)
	}
	_, err := demo.Forks(t.Context(), c, d, func(string, ...any) {})
	if !errors.Is(err, &api.Error{Code: api.CodePrecondition}) || !strings.Contains(err.Error(), "first-demo-") {
		t.Errorf("got %v", err)
	}
	onlyParent(t, c)
}

// TestForksSweep: children of a demonstration that was cut off are removed by
// the next one, and nobody else's.
func TestForksSweep(t *testing.T) {
	s, c, d := shop(t)
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := s.Desktop(api.CreateDesktop{Name: "first-demo-3", Labels: map[string]string{"deskfork-demo": info.ID}})
	other := s.Desktop(api.CreateDesktop{Name: "other", Labels: map[string]string{"deskfork-demo": "d9999"}})
	if _, err := demo.Forks(t.Context(), c, d, func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Desktop(old).Get(t.Context()); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Desktop(other).Get(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestForksUnknownSession: a shop that forgot who is signed in is not taken for a
// state to fork.
func TestForksUnknownSession(t *testing.T) {
	s, c, d := shop(t)
	if _, err := demo.Forks(t.Context(), c, d, func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	s.SetFile("first", demotest.Sessions, nil, 0o644)
	if _, err := demo.Forks(t.Context(), c, d, func(string, ...any) {}); err == nil || !strings.Contains(err.Error(), "the shop knows of") {
		t.Errorf("got %v", err)
	}
	onlyParent(t, c)
}
