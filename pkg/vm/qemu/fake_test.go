package qemu_test

import (
	"bufio"
	"encoding/json"
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
	case first == "create", first == "convert":
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
	if err := os.WriteFile(path, []byte("fake qcow2"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fakeMachine is a QEMU that speaks as much QMP as the provider needs. The
// guest's configuration says how it behaves: "die" at start, "deaf" to the
// power button. What is written to its display commands it: P powers off.
type fakeMachine struct {
	deaf bool

	mu    sync.Mutex
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
	config, _ := os.ReadFile(path(option("-fw_cfg"), "file="))
	if string(config) == "die" {
		fmt.Fprintln(os.Stderr, "qemu: could not load the fake kernel")
		return 1
	}
	f := &fakeMachine{deaf: string(config) == "deaf", state: "running"}
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
	for s := bufio.NewScanner(c); s.Scan(); {
		var cmd struct {
			Execute string
			ID      uint64
		}
		if json.Unmarshal(s.Bytes(), &cmd) != nil {
			return
		}
		f.mu.Lock()
		result := "{}"
		switch cmd.Execute {
		case "query-status":
			result = fmt.Sprintf(`{"status":%q}`, f.state)
		case "query-vnc":
			result = `{"enabled":true}`
		}
		fmt.Fprintf(c, `{"return":%s,"id":%d}`+"\n", result, cmd.ID)
		f.mu.Unlock()
		switch {
		case cmd.Execute == "quit":
			syscall.Exit(0)
		case cmd.Execute == "system_powerdown" && !f.deaf:
			f.powerOff()
		}
	}
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
