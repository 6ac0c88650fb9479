package screen

import (
	"image"
	"image/color"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// TestUpdates: who waits for a change gets other answers meanwhile, and the change
// once.
func TestUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2, 1)
		ours, theirs := net.Pipe()
		go s.Serve(theirs) // ends with the connection
		defer ours.Close()
		say := func(b ...byte) {
			t.Helper()
			if _, err := ours.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		hear := func(n int) []byte {
			t.Helper()
			b := make([]byte, n)
			if _, err := io.ReadFull(ours, b); err != nil {
				t.Fatal(err)
			}
			return b
		}
		const header, pixel = 4 + 12, 4
		ask := func(incremental, width byte) { say(msgUpdateRequest, incremental, 0, 0, 0, 0, 0, width, 0, 1) }
		blue := func(b []byte) byte { return b[header] }

		hear(len(Version))
		say([]byte(Version)...)
		hear(2)
		say(1)
		hear(4)
		say(1)
		hear(4 + 16 + 4 + len("fake"))

		ask(1, 2)
		if got := blue(hear(header + 2*pixel)); got != 0x60 {
			t.Errorf("at first the blue is %#x", got)
		}
		ask(1, 2) // it waits
		synctest.Wait()
		for range 2 {
			ask(0, 1)
			if got := blue(hear(header + pixel)); got != 0x60 {
				t.Errorf("while another waits the blue is %#x", got)
			}
		}
		s.Fill(image.Rect(0, 0, 2, 1), color.RGBA{1, 2, 3, 255})
		if got := blue(hear(header + 2*pixel)); got != 3 {
			t.Errorf("after the change the blue is %#x", got)
		}
		ask(1, 2)
		synctest.Wait() // nothing comes: the pipe would hold it
		ask(0, 1)
		if got := hear(header + pixel); blue(got) != 3 || got[9] != 1 {
			t.Errorf("after the change % x is said", got)
		}
	})
}
