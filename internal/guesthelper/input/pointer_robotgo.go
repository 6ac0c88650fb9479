//go:build robotgo

package input

/*
#cgo linux LDFLAGS: -lX11
#include <X11/Xlib.h>
#include <unistd.h>

// Xlib ends the process when the server goes away or refuses a request. The
// helper must first answer what is in flight, which its own connection tells
// it to; so the thread that found out just stops.
static int deskforkIOError(Display *d) { (void)d; for (;;) pause(); return 0; }
static int deskforkError(Display *d, XErrorEvent *e) { (void)d; (void)e; return 0; }
static void deskforkHandlers(void) {
	XSetIOErrorHandler(deskforkIOError);
	XSetErrorHandler(deskforkError);
}
*/
import "C"

import (
	"sync"

	"github.com/go-vgo/robotgo"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
)

// robotPointer plays through robotgo: moving, the three main buttons and the
// vertical wheel. robotgo has no name for the buttons 8 and 9, turns the
// horizontal wheel the other way round by its sign, and finds keys by keysym
// without regard to level and group, so that a layout other than its author's
// types other characters; all that goes through XTEST on our own connection.
type robotPointer struct {
	d  *display.Display
	mu sync.Mutex // robotgo keeps one unguarded connection
}

var _ pointer = (*robotPointer)(nil)

// newPointer prepares robotgo, whose connection opens with the first call.
func newPointer(d *display.Display) pointer {
	C.deskforkHandlers()
	if err := robotgo.SetXDisplayName(d.Name); err != nil {
		return xtestPointer{d}
	}
	return &robotPointer{d: d}
}

// alive guards every call: robotgo dereferences nil when it cannot connect.
func (p *robotPointer) alive() error {
	select {
	case <-p.d.Done():
		return display.ErrLost
	default:
		return nil
	}
}

func (p *robotPointer) move(x, y int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.alive(); err != nil {
		return err
	}
	robotgo.Move(x, y)
	return nil
}

func (p *robotPointer) button(n int, down bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.alive(); err != nil {
		return err
	}
	name := [...]string{"", "left", "center", "right"}[n]
	if down {
		return robotgo.Toggle(name, "down")
	}
	return robotgo.Toggle(name, "up")
}

func (p *robotPointer) step(down bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.alive(); err != nil {
		return err
	}
	if down {
		robotgo.Scroll(0, -1, 0)
	} else {
		robotgo.Scroll(0, 1, 0)
	}
	return nil
}
