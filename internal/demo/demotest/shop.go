// Package demotest makes a fake server's desktops into ones on which the
// demonstrations can be given: with a terminal, a browser, a file manager, an
// editor, and a shop that writes down what happens in it.
package demotest

import (
	"slices"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// What the shop writes, and who is signed in with which session.
const (
	Sessions = "/workspace/harbour/sessions.txt"
	Orders   = "/workspace/harbour/orders.txt"
	Session  = "ada 12ab34cd"
)

// Prepare makes the programs of all desktops of s answer. Windows open at once,
// and what is typed has its effect without Return.
func Prepare(s *clienttest.Server) {
	s.OnExec(func(g *clienttest.Guest, x api.Exec) {
		if slices.Contains(x.Argv, "/workspace/harbour/site.py") {
			g.WriteFile(Sessions, nil)
			g.WriteFile(Orders, nil)
		}
	})
	s.OnLaunch(func(g *clienttest.Guest, l api.Launch) {
		if l.URL == "http://127.0.0.1:8077/" {
			page(g, "Harbour: sign in")
		}
	})
	s.OnAction(func(g *clienttest.Guest, a api.Action) {
		switch a.Kind {
		case "click":
			click(g, *a.X)
		case "text":
			text(g, a.Text)
		case "key":
			key(g, a.Keys)
		}
	})
}

// page is a window of the browser whose page says that it is drawn.
func page(g *clienttest.Guest, title string) {
	open(g, title+" - Chromium")
	g.WriteFile("/workspace/harbour/drawn.txt", []byte(title+"\n"))
}

// open puts a window on top.
func open(g *clienttest.Guest, title string) {
	g.AddWindow(api.Window{ID: uint64(100 + len(g.Windows())), Title: title, X: 10, Y: 40, Width: 1000, Height: 700, Type: "normal"})
}

func click(g *clienttest.Guest, x int) {
	switch x - 400 { // the panel's left edge
	case 122:
		g.AddWindow(api.Window{ID: 20, Title: "Terminal", Class: "Xfce4-terminal", X: 100, Y: 100, Width: 600, Height: 400, Type: "normal"})
	case 186:
		open(g, "agent - Thunar")
	case 218:
		open(g, "Untitled 1 - Mousepad")
	}
}

func text(g *clienttest.Guest, text string) {
	switch {
	case text == "analytical engine":
		page(g, "Harbour: signed in as ada")
		g.WriteFile(Sessions, []byte(Session+"\n"))
	case text == "2":
		page(g, "Harbour: order 1 sent: 2 x A Room of One's Own")
		g.WriteFile(Orders, []byte("2 x A Room of One's Own\n"))
	case text == "/workspace":
		open(g, "workspace - Thunar")
	case text == "letters":
		g.WriteFile("/workspace/letters", nil)
		g.CloseWindow("Create New Folder")
	case text == "note.txt":
		g.CloseWindow("Save As")
		g.WriteFile("/home/agent/note.txt", []byte("Parent and children are one machine up to the fork."))
	case strings.Contains(text, "factorial(40)"):
		g.WriteFile("/workspace/answer.txt", []byte("815915283247897734345611269596115894272000000000\n"))
	case strings.Contains(text, "/tmp/demo.txt"):
		g.WriteFile("/tmp/demo.txt", []byte("hello from Linux\n"))
	}
}

func key(g *clienttest.Guest, chord string) {
	switch chord {
	case "ctrl+shift+n":
		open(g, "Create New Folder")
	case "ctrl+s":
		open(g, "Save As")
	case "alt+o":
		page(g, "Harbour: ada has signed out")
		g.WriteFile(Sessions, nil)
	}
}
