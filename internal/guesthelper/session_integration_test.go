//go:build integration

package guesthelper_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

func TestScreenshot(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	x.output(t, nil, "xsetroot", "-solid", "#204060")
	var shot guest.Screenshot
	raw := p.call(guest.OpScreenshot, guest.ScreenshotParams{Format: guest.FormatRGBA}, nil, &shot)
	if shot.Width != 1280 || shot.Height != 800 || len(raw) != 4*1280*800 {
		t.Fatalf("%+v with %d bytes", shot, len(raw))
	}
	if !bytes.Equal(raw[:4], []byte{0x20, 0x40, 0x60, 0xff}) {
		t.Errorf("pixel %v", raw[:4])
	}
	pic := p.call(guest.OpScreenshot, nil, nil, &shot)
	img, err := png.Decode(bytes.NewReader(pic))
	if err != nil || img.Bounds() != image.Rect(0, 0, 1280, 800) {
		t.Fatalf("PNG: %v", err)
	}
	if r, g, b, _ := img.At(1279, 799).RGBA(); r>>8 != 0x20 || g>>8 != 0x40 || b>>8 != 0x60 {
		t.Errorf("pixel %x %x %x", r, g, b)
	}
	p.play(guest.InputEvent{Kind: "move", X: 600, Y: 400})
	with := p.call(guest.OpScreenshot, guest.ScreenshotParams{Format: guest.FormatRGBA, Cursor: true}, nil, nil)
	if bytes.Equal(raw, with) {
		t.Error("the pointer is not in the picture that asks for it")
	}
	_, err = p.try(guest.OpScreenshot, guest.ScreenshotParams{Format: "bmp"}, nil, nil)
	if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
		t.Errorf("bmp: %v", err)
	}
}

func TestSetScreen(t *testing.T) {
	x := startX(t, "-extension", "RANDR")
	p := startHelper(t, x)
	_, err := p.try(guest.OpSetScreen, guest.Screen{Width: 1024, Height: 768}, nil, nil)
	if !errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
		t.Errorf("without RandR: %v", err)
	}
	if len(p.hello.Missing) != 1 || !strings.HasPrefix(p.hello.Missing[0], guest.OpSetScreen) {
		t.Errorf("hello says that %q are missing", p.hello.Missing)
	}
	_, err = p.try(guest.OpSetScreen, guest.Screen{Width: 1, Height: 768}, nil, nil)
	if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
		t.Errorf("1 pixel wide: %v", err)
	}
}

func TestSetScreenWithRandR(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	for _, want := range []guest.Screen{{Width: 1024, Height: 768, Scale: 1}, {Width: 1111, Height: 601, Scale: 1}, {Width: 1280, Height: 800, Scale: 1}} {
		var got guest.Screen
		_, err := p.try(guest.OpSetScreen, want, nil, &got)
		if errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
			t.Logf("this Xvfb refuses %v: %v", want, err)
			continue
		}
		if err != nil || got != want {
			t.Errorf("set %v: %v, %v", want, got, err)
		}
		var shot guest.Screenshot
		p.call(guest.OpScreenshot, nil, nil, &shot)
		if shot.Width != got.Width || shot.Height != got.Height {
			t.Errorf("the picture is %dx%d", shot.Width, shot.Height)
		}
	}
}

func TestSetKeyboard(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	p.call(guest.OpSetKeyboard, guest.Keyboard{Layout: "de", Variant: "nodeadkeys"}, nil, nil)
	if out := string(x.output(t, nil, "setxkbmap", "-query")); !strings.Contains(out, "nodeadkeys") {
		t.Error(out)
	}
	if out := string(x.output(t, nil, "xset", "q")); !strings.Contains(out, "auto repeat:  off") {
		t.Error(out)
	}
	for _, k := range []guest.Keyboard{{Layout: "xx"}, {Layout: "-help"}, {}, {Layout: "us", Variant: "nonesuch"}} {
		_, err := p.try(guest.OpSetKeyboard, k, nil, nil)
		if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

func TestLaunch(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	file := filepath.Join(x.home, "launched")
	var l guest.Launched
	p.call(guest.OpLaunch, guest.Launch{
		Argv: []string{"sh", "-c", "echo $FOO $DISPLAY $(pwd) $(ps -o sid= -p $$) > out.new; mv out.new launched; exec sleep 60"},
		Env:  map[string]string{"FOO": "bar"}, Dir: x.home,
	}, nil, &l)
	t.Cleanup(func() { _ = syscall.Kill(l.PID, syscall.SIGKILL) })
	expectFile(t, file, fmt.Sprintf("bar %s %s %d\n", x.name, x.home, l.PID))
	for name, c := range map[string]struct {
		l    guest.Launch
		want guest.Code
	}{
		"no program":   {guest.Launch{Argv: []string{"no-such-program"}}, guest.CodeNotFound},
		"no path":      {guest.Launch{Argv: []string{"/no/such"}}, guest.CodeNotFound},
		"no directory": {guest.Launch{Argv: []string{"true"}, Dir: "/no/such"}, guest.CodeNotFound},
		"directory":    {guest.Launch{Argv: []string{"/tmp"}}, guest.CodePermission},
		"nothing":      {guest.Launch{}, guest.CodeInvalid},
		"no url":       {guest.Launch{URL: "not a url"}, guest.CodeInvalid},
		"no browser":   {guest.Launch{URL: "http://localhost/", Env: map[string]string{"PATH": "/nowhere"}}, guest.CodeNotFound},
	} {
		_, err := p.try(guest.OpLaunch, c.l, nil, nil)
		if !errors.Is(err, &guest.Error{Code: c.want}) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// The program outlives the helper.
	p.stdin.Close()
	<-p.ended
	if err := syscall.Kill(l.PID, 0); err != nil {
		t.Errorf("the program ended with the helper: %v", err)
	}
}

func TestNoDisplay(t *testing.T) {
	cmd := exec.Command(helperPath, "-display", ":9999", "-wait", "0s")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 69 || len(out) != 0 {
		t.Errorf("%v, output %q", err, out)
	}
}

func TestDisplayDies(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	p.play(guest.InputEvent{Kind: "move", X: 5, Y: 5}) // opens robotgo's connection
	_, ch := p.send(guest.OpInput, guest.InputBatch{Events: []guest.InputEvent{
		{Kind: "text", Text: strings.Repeat("x", 150), PerSecond: 5},
	}}, nil, time.Minute)
	var got guest.Point
	p.call(guest.OpPointer, nil, nil, &got) // the text is under way
	if err := x.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-ch:
		if m.Error == nil || m.Error.Code != guest.CodeNoDisplay {
			t.Errorf("answered %+v", m)
		}
	case <-time.After(time.Minute):
		t.Error("no answer")
	}
	select {
	case <-p.ended:
		if c := p.cmd.ProcessState.ExitCode(); c != 69 {
			t.Errorf("exit status %d", c)
		}
	case <-time.After(time.Minute):
		t.Fatal("the helper goes on without a display")
	}
}

func TestDisplayHangs(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	if err := x.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.cmd.Process.Signal(syscall.SIGCONT) }()
	_, ch := p.send(guest.OpScreenshot, nil, nil, 500*time.Millisecond)
	select {
	case m := <-ch:
		if m.Error == nil || m.Error.Code != guest.CodeDeadline {
			t.Errorf("answered %+v", m.Error)
		}
	case <-time.After(time.Minute):
		t.Error("no answer")
	}
	if err := x.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.call(guest.OpScreenshot, nil, nil, nil) // and it works again
}

func TestKeysAreReleasedAtTheEnd(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	p.play(guest.InputEvent{Kind: "key", Keysym: 0xffe3, Down: true}, guest.InputEvent{Kind: "button", Button: 1, Down: true})
	if !strings.Contains(pressed(t, x), "=down") {
		t.Fatal("nothing is pressed")
	}
	p.stdin.Close()
	<-p.ended
	if down := pressed(t, x); down != "" {
		t.Errorf("after the helper's end: %s", down)
	}
	if c := p.cmd.ProcessState.ExitCode(); c != 0 {
		t.Errorf("exit status %d", c)
	}
}

func TestMalformedFrames(t *testing.T) {
	x := startX(t)
	for _, wire := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x00", "\x00\x00\x00\x02J{", "\x00\x00\x00\x01Q"} {
		cmd := exec.Command(helperPath)
		cmd.Env, cmd.Stdin = x.env(), strings.NewReader(wire)
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 76 {
			t.Errorf("%q: %v", wire, err)
		}
	}
	p := startHelper(t, x)
	for name, m := range map[string]guest.HelperMessage{
		"unknown operation": {Op: "desktop.fly"}, "bad parameters": {Op: guest.OpInput, Params: []byte(`[1]`)},
	} {
		want := map[string]guest.Code{"unknown operation": guest.CodeUnsupported, "bad parameters": guest.CodeInvalid}[name]
		_, err := p.try(m.Op, m.Params, nil, nil)
		if !errors.Is(err, &guest.Error{Code: want}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	var chs []<-chan guest.HelperMessage
	for i := range 200 {
		op := []string{guest.OpScreen, guest.OpScreenshot, guest.OpPointer, guest.OpWindows, guest.OpClipboardTypes}[i%5]
		_, ch := p.send(op, nil, nil, time.Minute)
		chs = append(chs, ch)
	}
	codes := map[string]int{}
	for _, ch := range chs {
		m := <-ch
		code := "ok"
		if m.Error != nil {
			code = string(m.Error.Code)
		}
		codes[code]++
	}
	if codes["ok"]+codes[string(guest.CodeBusy)] != 200 || codes["ok"] < 64 {
		t.Errorf("answers: %v", codes)
	}
	t.Log(codes, strconv.Itoa(p.hello.PID))
}
