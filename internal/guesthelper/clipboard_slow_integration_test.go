//go:build integration

package guesthelper_test

import (
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// requestor asks for the clipboard in one property of its window, as GTK does.
type requestor struct {
	t    *testing.T
	conn *xgb.Conn
	win  xproto.Window
	prop xproto.Atom
}

func newRequestor(t *testing.T, x *xserver) *requestor {
	t.Helper()
	conn, err := xgb.NewConnDisplay(x.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	r := &requestor{t: t, conn: conn}
	if r.win, err = xproto.NewWindowId(conn); err != nil {
		t.Fatal(err)
	}
	root := xproto.Setup(conn).DefaultScreen(conn).Root
	if err := xproto.CreateWindowChecked(conn, 0, r.win, root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil).Check(); err != nil {
		t.Fatal(err)
	}
	r.prop = r.atom("GDK_SELECTION")
	return r
}

func (r *requestor) atom(name string) xproto.Atom {
	r.t.Helper()
	a, err := xproto.InternAtom(r.conn, false, uint16(len(name)), name).Reply()
	if err != nil {
		r.t.Fatal(err)
	}
	return a.Atom
}

func (r *requestor) ask(target string) {
	r.t.Helper()
	err := xproto.ConvertSelectionChecked(r.conn, r.win, r.atom("CLIPBOARD"), r.atom(target), r.prop, 0).Check()
	if err != nil {
		r.t.Fatal(err)
	}
}

// answered waits for the next answer and returns what is in the property.
func (r *requestor) answered() string {
	r.t.Helper()
	var got string
	eventually(r.t, "an answer", func() bool {
		ev, err := r.conn.PollForEvent()
		if err != nil {
			r.t.Fatal(err)
		}
		_, ok := ev.(xproto.SelectionNotifyEvent)
		return ok
	})
	reply, err := xproto.GetProperty(r.conn, false, r.win, r.prop, xproto.GetPropertyTypeAny, 0, 1<<16).Reply()
	if err != nil {
		r.t.Fatal(err)
	}
	if reply.Format == 8 {
		got = string(reply.Value)
	}
	return got
}

func (r *requestor) take() {
	r.t.Helper()
	if err := xproto.DeletePropertyChecked(r.conn, r.win, r.prop).Check(); err != nil {
		r.t.Fatal(err)
	}
}

// TestClipboardSlowRequestor asks for a text, and only then takes the list of targets
// away from where the text shall be.
func TestClipboardSlowRequestor(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	p.setText("kept")
	r := newRequestor(t, x)
	for range 3 {
		r.ask("TARGETS")
		r.answered()
		r.ask("UTF8_STRING")
		<-time.After(300 * time.Millisecond) // enough for an answer that does not wait
		r.take()
		if got := r.answered(); got != "kept" {
			t.Errorf("got %q", got)
		}
		r.take()
	}
	// One that never takes anything away is answered all the same.
	for range 2 {
		r.ask("TARGETS")
		r.answered()
		r.ask("UTF8_STRING")
		if got := r.answered(); got != "kept" {
			t.Errorf("got %q", got)
		}
	}
}
