package vmtest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

func spec(*testing.T) vm.Spec {
	shape, _ := vm.ShapeNamed("small")
	return vm.Spec{
		ID: "d1", Incarnation: "i1", Shape: shape, System: vm.Disk{SizeMiB: 1}, Workspace: vm.Disk{SizeMiB: 1},
		Width: 320, Height: 200, Network: vm.NetworkNone,
	}
}

func TestFakeKeepsTheContract(t *testing.T) {
	t.Parallel()
	fake := func(t *testing.T, m vm.Machine) *vmtest.Machine {
		t.Helper()
		f, ok := m.(*vmtest.Machine)
		if !ok {
			t.Fatalf("machine is a %T", m)
		}
		return f
	}
	vmtest.Run(t, vmtest.Harness{
		New:      func(*testing.T) vm.Provider { return vmtest.New(vmtest.Config{}) },
		Spec:     spec,
		PowerOff: func(t *testing.T, m vm.Machine) { t.Helper(); fake(t, m).PowerOff() },
		Crash:    func(t *testing.T, m vm.Machine) { t.Helper(); fake(t, m).Crash("boom") },
		Obeys:    true,
		Restart:  func(_ *testing.T, p vm.Provider) vm.Provider { known(p).Restart(); return p },
		Damage:   func(_ *testing.T, p vm.Provider, id vm.SnapshotID) { known(p).Damage(id) },
		Write:    func(t *testing.T, m vm.Machine, p []byte, off int64) { t.Helper(); fake(t, m).WriteWorkspace(p, off) },
	})
}

func known(p vm.Provider) *vmtest.Provider {
	fake, _ := p.(*vmtest.Provider)
	return fake
}

func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	p := vmtest.New(vmtest.Config{})
	m, err := p.Create(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Restart()
	got, err := p.Recover(t.Context())
	if err != nil || len(got) != 1 || !got[0].Info().Adopted {
		t.Fatalf("Recover = %v, %v; want the machine, adopted", got, err)
	}
	if err := m.Destroy(t.Context()); err != nil || p.Count() != 0 {
		t.Fatalf("Destroy: %v, %d left", err, p.Count())
	}
}

func TestConfiguredGuestAndRefusal(t *testing.T) {
	t.Parallel()
	errCreate, errDial := errors.New("no"), errors.New("refused")
	p := vmtest.New(vmtest.Config{
		Create: func(_ context.Context, s vm.Spec) error {
			if s.ID == "bad" {
				return errCreate
			}
			return nil
		},
		Guest: func(_ context.Context, m *vmtest.Machine, port int) (net.Conn, error) {
			if port != 80 {
				return nil, errDial
			}
			ours, theirs := net.Pipe()
			go func() { _, _ = io.WriteString(theirs, string(m.Spec().ID)); theirs.Close() }() // ends with the reader
			return ours, nil
		},
	})
	s := spec(t)
	s.ID = "bad"
	if _, err := p.Create(t.Context(), s); !errors.Is(err, errCreate) || p.Count() != 0 {
		t.Fatalf("Create = %v, %d machines", err, p.Count())
	}
	m, err := p.Create(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.DialGuest(t.Context(), 81); !errors.Is(err, errDial) {
		t.Fatalf("DialGuest(81) = %v", err)
	}
	c, err := m.DialGuest(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); string(b) != "d1" || err != nil {
		t.Fatalf("guest said %q, %v", b, err)
	}
}

// client does the RFB handshake by hand.
func client(t *testing.T, m vm.Machine) net.Conn {
	t.Helper()
	c, err := m.DialDisplay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	read(t, c, 12)
	write(t, c, []byte("RFB 003.008\n"))
	read(t, c, 2)
	write(t, c, []byte{1})
	read(t, c, 4)
	write(t, c, []byte{1})
	if init := read(t, c, 28); binary.BigEndian.Uint16(init) != 320 || binary.BigEndian.Uint16(init[2:]) != 200 {
		t.Fatalf("ServerInit %v", init)
	}
	return c
}

func read(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestScreenOverRFB(t *testing.T) {
	t.Parallel()
	p := vmtest.New(vmtest.Config{})
	m, err := p.Create(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	screen := p.Machine("i1").Screen()
	screen.Fill(image.Rect(10, 20, 11, 21), color.RGBA{1, 2, 3, 255})
	c := client(t, m)
	write(t, c, []byte{2, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe})
	pixel := []byte{3, 0, 0, 10, 0, 20, 0, 1, 0, 1}
	write(t, c, pixel)
	up := read(t, c, 4+12+12+4)
	if up[3] != 2 || !bytes.Equal(up[12:16], []byte{0xff, 0xff, 0xfe, 0xfe}) || !bytes.Equal(up[28:], []byte{3, 2, 1, 0}) {
		t.Fatalf("first update %v: want the extended key rectangle and one pixel BGRX", up)
	}
	pixel[1] = 1 // incremental: answered at the next change
	write(t, c, pixel)
	screen.Fill(image.Rect(10, 20, 11, 21), color.RGBA{4, 5, 6, 255})
	if up := read(t, c, 4+12+4); up[3] != 1 || !bytes.Equal(up[16:], []byte{6, 5, 4, 0}) {
		t.Fatalf("incremental update %v", up)
	}
	write(t, c, []byte{5, 1, 0, 7, 0, 9})
	write(t, c, []byte{4, 1, 0, 0, 0, 0, 0, 'a'})
	write(t, c, []byte{255, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0, 30})
	write(t, c, []byte{6, 0, 0, 0, 0, 0, 0, 1, 'x'})
	write(t, c, []byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 1}) // its answer: all before has been seen
	read(t, c, 20)
	want := []vmtest.Event{
		{Kind: "pointer", X: 7, Y: 9, Buttons: 1},
		{Kind: "key", Keysym: 'a', Down: true},
		{Kind: "key", Keysym: 'a', Keycode: 30},
		{Kind: "cut", Text: "x"},
	}
	if d := cmp.Diff(want, screen.Events()); d != "" {
		t.Fatalf("events (-want +got):\n%s", d)
	}
	p.Machine("i1").PowerOff()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("connection outlives the machine")
	}
}
