//go:build integration && cgo

package watch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// TestForeignClient: a WHEP client that is not ours shows a desktop in Debian's
// Chromium under a ticket, and sees what changes; a data channel of the same
// connection clicks.
func TestForeignClient(t *testing.T) {
	modules, err := filepath.Abs("../../../test/browser/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, func(next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/player/", http.StripPrefix("/player/", http.FileServer(http.Dir(modules+"/whip-whep"))))
		mux.HandleFunc("/player/{$}", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!doctype html><video autoplay muted playsinline></video>")
		})
		mux.Handle("/", next)
		return mux
	})
	h.screen().Fill(image.Rect(0, 0, 1280, 800), color.Gray{64})
	fields := []struct {
		at image.Point
		c  color.RGBA
	}{
		{image.Pt(80, 80), color.RGBA{200, 40, 40, 255}}, {image.Pt(640, 400), color.RGBA{40, 180, 60, 255}}, {image.Pt(1200, 720), color.RGBA{30, 60, 220, 255}},
	}
	var list [][2]int
	for _, f := range fields {
		h.screen().Fill(image.Rectangle{f.at, f.at}.Inset(-64), f.c)
		list = append(list, [2]int{f.at.X, f.at.Y})
	}
	arg, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "whep.js"), h.url, h.desktop.ID, h.ticket("control").Ticket, string(arg))
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the client shows nothing (scripts/deps.sh test installs what the test needs): %v", cmd.Wait())
	}
	var got [][]int
	if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, f := range fields {
		if near := got[i]; videotest.PSNR(dot(near), dot([]int{int(f.c.R), int(f.c.G), int(f.c.B)})) < 26 {
			t.Errorf("the client's pixel %v is %v, want about %v", f.at, near, f.c)
		}
	}
	if size := got[len(fields)]; size[0] != 1280 || size[1] != 800 {
		t.Errorf("the client's picture has %v pixels", size)
	}
	h.played(vmtest.Event{Kind: "pointer", X: 300, Y: 200, Buttons: 1})
	h.played(vmtest.Event{Kind: "pointer", X: 300, Y: 200})
	h.screen().Fill(image.Rect(0, 0, 200, 200), color.White)
	if !lines.Scan() || lines.Text() != "white" {
		t.Errorf("the client says %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	h.audited("viewer.joined webrtc as control", "control.taken", "control.released", "viewer.left")
}

// dot is an image of one pixel.
func dot(c []int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.SetRGBA(0, 0, color.RGBA{byte(c[0]), byte(c[1]), byte(c[2]), 255})
	return img
}
