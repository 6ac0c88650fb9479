package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestFreezeOverTheLink: another life of the machine begins thawed, and so does
// the end of guestd leave it.
func TestFreezeOverTheLink(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	h, err := c.Hello(soon(t))
	if err != nil || !slices.Contains(h.Capabilities, "freeze") {
		t.Fatalf("%+v, %v", h, err)
	}
	entropy := make([]byte, 32)
	if _, err := c.Handshake(soon(t), guest.Handshake{Entropy: entropy, Generation: "one", Workspace: "/dev/vdb"}); err != nil {
		t.Fatal(err)
	}
	freeze := func() {
		t.Helper()
		f, err := c.System.Freeze(soon(t), guest.FreezeParams{ID: "x", For: 20 * time.Second})
		if err != nil || f.Device != "/dev/vdb" || !g.Kernel.State().Frozen {
			t.Fatalf("freeze: %+v, %v", f, err)
		}
	}
	freeze()
	if held, err := c.System.Thaw(soon(t), "x"); err != nil || !held {
		t.Errorf("thaw: %t, %v", held, err)
	}
	freeze()
	if _, err := c.Handshake(soon(t), guest.Handshake{Entropy: entropy, Generation: "two"}); err != nil || g.Kernel.State().Frozen {
		t.Errorf("another life: %v, frozen %t", err, g.Kernel.State().Frozen)
	}
	freeze()
	g.Stop()
	if g.Kernel.State().Frozen {
		t.Error("frozen after the end of guestd")
	}
}
