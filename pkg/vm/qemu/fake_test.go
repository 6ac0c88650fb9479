package qemu_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
)

// TestMain plays QEMU, qemu-img and mke2fs when it is started as one of them,
// and the daemon that dies in the middle. They end by syscall.Exit: os.Exit waits
// a second under the race detector.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch {
	case first == crashFlag:
		syscall.Exit(crashChild(args[1:]))
	case first == "create", first == "convert", first == "rebase":
		syscall.Exit(fakeTool(args))
	case first == "-q": // mke2fs works on the raw file as it is
		syscall.Exit(0)
	case first == "-version":
		say("QEMU emulator version 7.2.99 (fake)")
		syscall.Exit(0)
	case first == "--version", first == "-V":
		say("fake 1.0")
		syscall.Exit(0)
	case slices.Contains(args, "help"):
		say(`dgram "virtio-vga" "virtio-tablet-pci" "virtio-keyboard-pci" "virtio-net-pci" "virtio-blk-pci" "virtio-rng-pci" "vmgenid"`)
		syscall.Exit(0)
	case first == "-name" && args[1] == "deskfork-accelerator-probe":
		say("SE")
		syscall.Exit(33)
	case first == "-name":
		syscall.Exit(fakeQEMU(args))
	}
	os.Exit(m.Run())
}

func say(s string) { _, _ = os.Stdout.WriteString(s + "\n") }

// fakeTool makes the file that is named last, or before a size.
func fakeTool(args []string) int {
	path := args[len(args)-1]
	if strings.HasSuffix(path, "M") {
		path = args[len(args)-2]
	}
	if strings.Contains(path, "/full/") || slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, "full.raw") }) {
		fmt.Fprintln(os.Stderr, "qemu-img: write failed: No space left on device")
		return 1
	}
	if args[0] == "rebase" {
		return 0
	}
	// An empty disk of 1 MiB with nothing below.
	if err := emptyDisk(path, 1<<20); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// emptyDisk takes the backing file out of an overlay.
func emptyDisk(path string, bytes int64) error {
	if err := errors.Join(ignoreMissing(os.Remove(path)), disk.Overlay(path, "/none", "raw", bytes)); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	clear(b[8:20])
	return os.WriteFile(path, b, 0o600)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// fakeMachine is a QEMU that speaks as much QMP as the provider needs. The
// guest's configuration says how it behaves: "die" at start, "deaf" to the
// power button, "sick" when it loads a state, "bare" of a framebuffer, "early": has read nothing from its disks, "fail COMMAND" once. What is written to its display commands it: P powers off.
type fakeMachine struct {
	deaf bool

	mu    sync.Mutex
	live  *fakeLive
	conns []net.Conn // QMP
	state string
}

func fakeQEMU(args []string) int {
	option := func(name string) string { v, _ := argv.Value(args, name); return v }
	path := func(s, key string) string {
		for part := range strings.SplitSeq(s, ",") {
			if v, ok := strings.CutPrefix(part, key); ok {
				return v
			}
		}
		return ""
	}
	var config []byte
	for i, a := range args {
		if file := path(args[min(i+1, len(args)-1)], "file="); a == "-fw_cfg" && file != "" {
			config, _ = os.ReadFile(file)
		}
	}
	if string(config) == "die" {
		fmt.Fprintln(os.Stderr, "qemu: could not load the fake kernel")
		return 1
	}
	waits := slices.Contains(args, "-incoming")
	f := &fakeMachine{deaf: string(config) == "deaf", state: "running"}
	if waits {
		f.state = "inmigrate"
	}
	var disks []string
	for i, a := range args {
		if a == "-blockdev" {
			disks = append(disks, args[i+1])
		}
	}
	live, err := newFakeLive(option, path, disks, !waits)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	live.fails, _ = strings.CutPrefix(string(config), "fail ")
	live.sick, live.bare, live.early = string(config) == "sick", string(config) == "bare", string(config) == "early"
	f.live = live
	if n := option("-netdev"); n != "" {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path(n, "local.path="), Net: "unixgram"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = conn.Close() }()
	}
	vnc, err := net.Listen("unix", path(option("-vnc"), "unix:"))
	if err == nil {
		go f.display(vnc) // ends with the process
		var qmp net.Listener
		if qmp, err = net.Listen("unix", path(option("-qmp"), "unix:")); err == nil {
			return f.monitor(qmp)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (f *fakeMachine) display(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // ends with the connection
			_, _ = io.WriteString(c, "RFB 003.008\n")
			b := make([]byte, 1)
			if _, err := io.ReadFull(c, b); err == nil && b[0] == 'P' {
				f.powerOff()
			}
			c.Close()
		}()
	}
}

// monitor serves one connection at a time, as QEMU does.
func (f *fakeMachine) monitor(l net.Listener) int {
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
		f.serve(c)
	}
}

func (f *fakeMachine) serve(c net.Conn) {
	defer c.Close()
	_, _ = io.WriteString(c, `{"QMP":{"version":{"qemu":{"major":7,"minor":2,"micro":99},"package":""},"capabilities":["oob"]}}`+"\n")
	in := &fdConn{UnixConn: c.(*net.UnixConn)}
	for s := bufio.NewScanner(in); s.Scan(); {
		var cmd fakeCommand
		if json.Unmarshal(s.Bytes(), &cmd) != nil {
			return
		}
		f.mu.Lock()
		result, err := f.answer(c, in, cmd)
		if err != nil {
			fmt.Fprintf(c, `{"error":{"class":"GenericError","desc":%q},"id":%d}`+"\n", err.Error(), cmd.ID)
		} else {
			fmt.Fprintf(c, `{"return":%s,"id":%d}`+"\n", result, cmd.ID)
		}
		f.mu.Unlock()
		switch {
		case cmd.Execute == "quit":
			syscall.Exit(0)
		case cmd.Execute == "system_powerdown" && !f.deaf:
			f.powerOff()
		}
	}
}

type fakeCommand struct {
	Execute   string
	Arguments json.RawMessage
	ID        uint64
}

// answer runs with the lock held.
func (f *fakeMachine) answer(c net.Conn, in *fdConn, cmd fakeCommand) (string, error) {
	event := func(name string) {
		fmt.Fprintf(c, `{"event":%q,"timestamp":{"seconds":1,"microseconds":0}}`+"\n", name)
	}
	if f.live.fails == cmd.Execute {
		f.live.fails = ""
		return "", errors.New("the fake was told to fail")
	}
	switch cmd.Execute {
	case "query-status":
		return fmt.Sprintf(`{"status":%q}`, f.state), nil
	case "query-vnc":
		return `{"enabled":true}`, nil
	case "stop":
		f.state = "paused"
		event("STOP")
	case "cont":
		f.state = "running"
		event("RESUME")
	case "getfd":
		var a struct{ FDName string }
		if err := json.Unmarshal(cmd.Arguments, &a); err != nil {
			return "", err
		}
		f.live.fds[a.FDName] = in.take()
	default:
		if result, ok, err := f.live.call(f, cmd.Execute, cmd.Arguments); ok {
			return result, err
		}
	}
	return "{}", nil
}

func (f *fakeMachine) powerOff() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = "shutdown"
	for _, c := range f.conns {
		_, _ = io.WriteString(c, `{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-shutdown"},"timestamp":{"seconds":1,"microseconds":0}}`+"\n")
	}
}

// kill ends a process that the test found in Info.
func kill(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
