package vmtest_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"net"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// TestCloneOfFake: a clone's screen is a copy, its guest is told whose it was.
func TestCloneOfFake(t *testing.T) {
	t.Parallel()
	origins := make(chan string, 1)
	p := vmtest.New(vmtest.Config{Guest: func(_ context.Context, m *vmtest.Machine, _ int) (net.Conn, error) {
		of, id := m.Origin()
		if of == nil {
			origins <- "none"
		} else {
			origins <- string(of.Spec().Incarnation) + " by " + string(id)
		}
		return nil, errors.New("silent")
	}})
	m, err := p.Create(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	parent := p.Machine("i1")
	parent.Screen().Fill(image.Rect(0, 0, 8, 8), color.RGBA{R: 255, A: 255})
	if _, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1"}); err != nil {
		t.Fatal(err)
	}
	parent.Screen().Fill(image.Rect(0, 0, 8, 8), color.RGBA{B: 255, A: 255})
	c, err := p.Clone(t.Context(), vm.CloneSpec{ID: "d2", Incarnation: "i2", Snapshot: "s1", Network: vm.NetworkNone})
	if err != nil {
		t.Fatal(err)
	}
	conn := client(t, c)
	write(t, conn, []byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 1})
	if up := read(t, conn, 4+12+4); !bytes.Equal(up[16:], []byte{0, 0, 255, 0}) {
		t.Errorf("the clone shows %v, want the instant of the seal", up[16:])
	}
	for machine, want := range map[vm.Machine]string{m: "none", c: "i1 by s1"} {
		_, _ = machine.DialGuest(t.Context(), 1) // the guest is silent
		if got := <-origins; got != want {
			t.Errorf("origin is %q, want %q", got, want)
		}
	}
}

// TestPausedFakeIsSilent: a guest that stands still does not answer.
func TestPausedFakeIsSilent(t *testing.T) {
	t.Parallel()
	p := vmtest.New(vmtest.Config{})
	m, err := p.Create(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := m.DialGuest(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	fake := p.Machine("i1")
	if err := fake.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, conn, []byte("x"))
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("a paused guest answered %d bytes", n)
	}
	if err := errors.Join(conn.SetReadDeadline(time.Now().Add(time.Minute)), fake.Resume(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := read(t, conn, 1); string(got) != "x" {
		t.Errorf("after it went on it answers %q", got)
	}
}
