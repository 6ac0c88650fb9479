package demo_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/demo"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// desktop is a fake whose launcher opens a terminal that knows one line.
func desktop(t *testing.T, reply string) (*clienttest.Server, *client.Desktop) {
	t.Helper()
	s := clienttest.New(t)
	id := s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "first"})
	var mu sync.Mutex
	typed := ""
	s.OnAction(func(g *clienttest.Guest, a api.Action) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case a.Kind == "click" && *a.Y >= 752 && *a.X > 500 && *a.X < 560: // the launcher of the fake's panel
			g.AddWindow(api.Window{ID: 20, Title: "Terminal", Class: "Xfce4-terminal", X: 100, Y: 100, Width: 600, Height: 400, Type: "normal"})
		case a.Kind == "text":
			typed = a.Text
		case a.Kind == "key" && a.Keys == "Return" && strings.Contains(typed, "/tmp/demo.txt"):
			g.WriteFile("/tmp/demo.txt", []byte(reply))
		}
	})
	c, err := client.New(s.URL, client.WithToken(clienttest.Token))
	if err != nil {
		t.Fatal(err)
	}
	return s, c.Desktop(id)
}

func TestRun(t *testing.T) {
	s, d := desktop(t, "hello from Linux\n")
	var told []string
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	first, err := demo.Run(t.Context(), d, say)
	if err != nil || !first.Opened || first.Text != "hello from Linux" || !strings.HasPrefix(string(first.Picture), "\x89PNG") {
		t.Fatalf("%+v, %v", first.Text, err)
	}
	second, err := demo.Run(t.Context(), d, say)
	if err != nil || second.Opened || second.Text != first.Text {
		t.Errorf("again: %+v, %v", second.Text, err)
	}
	want := []string{
		"clicking the terminal's launcher at 522, 776",
		`typing: echo "hello from $(uname -n)" | tee /tmp/demo.txt`,
		"read back by exec: hello from Linux",
		"a terminal is open already",
		`typing: echo "hello from $(uname -n)" | tee /tmp/demo.txt`,
		"read back by exec: hello from Linux",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, "POST") && strings.HasSuffix(r, "/launch") {
			t.Error("it opened the terminal without a click")
		}
	}
}

func TestRunWithoutPanel(t *testing.T) {
	s, d := desktop(t, "")
	if err := d.Windows().Close(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	_, err := demo.Run(t.Context(), d, func(string, ...any) {})
	if !errors.Is(err, &api.Error{Code: api.CodePrecondition}) || !strings.Contains(err.Error(), "panel") {
		t.Errorf("got %v", err)
	}
	s.FailNext(api.Errorf(api.CodeGuestUnavail, "guestd does not answer"), api.Errorf(api.CodeGuestUnavail, "guestd does not answer"))
	if _, err := demo.Run(t.Context(), d, func(string, ...any) {}); !errors.Is(err, &api.Error{Code: api.CodeGuestUnavail}) {
		t.Errorf("got %v", err)
	}
}
