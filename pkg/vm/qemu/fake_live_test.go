package qemu_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	fakeState  = "devices of the fake machine"
	fakeStream = "stream of the fake machine"
	fakeScreen = 64 << 10 // bytes of its framebuffer
	firstPage  = "memory of the fake machine"
)

// fakeLive is what of a fake machine can be sealed and loaded: memory that is
// mapped as QEMU maps it, a framebuffer, block nodes.
type fakeLive struct {
	mem, screen []byte
	tops        map[string]fakeNode // by device
	nodes       map[string]fakeNode
	files       map[string]string // file nodes
	fds         map[string]int
	jobs        []string
	sick        bool   // complains when it loads
	bare        bool   // has no framebuffer
	early       bool   // has read nothing from its disks
	fails       string // command that fails the next time
}

type fakeNode struct{ name, file string }

// newFakeLive maps the memory file. A machine that boots writes to its memory.
func newFakeLive(option func(string) string, path func(s, key string) string, disks []string, boots bool) (*fakeLive, error) {
	f := &fakeLive{
		tops: make(map[string]fakeNode), nodes: make(map[string]fakeNode),
		files: make(map[string]string), fds: make(map[string]int),
	}
	ram, err := os.OpenFile(path(option("-object"), "mem-path="), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := ram.Stat()
	if err != nil {
		return nil, err
	}
	f.mem, err = unix.Mmap(int(ram.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	f.screen, err = unix.Mmap(-1, 0, fakeScreen, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	if boots {
		copy(f.mem, firstPage)
		copy(f.mem[len(f.mem)/2:], firstPage)
		copy(f.screen, "a picture")
	}
	for _, d := range disks {
		if name := path(d, "node-name="); strings.HasPrefix(d, "driver=file,") {
			f.files[name] = path(d, "filename=")
		} else {
			f.tops[strings.TrimRight(name, "0123456789")] = fakeNode{name, f.files[path(d, "file=")]}
		}
	}
	return f, nil
}

// call answers a command of snapshots and clones; ok is false when it is none.
func (f *fakeLive) call(m *fakeMachine, name string, raw json.RawMessage) (result string, ok bool, err error) {
	var a struct {
		Filename, FDName, URI, Driver, File string
		Line                                string `json:"command-line"`
		Node                                string `json:"node-name"`
		Job                                 string `json:"job-id"`
		Actions                             []struct {
			Data struct{ Node, Overlay string }
		}
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &a); err != nil {
			return "", true, err
		}
	}
	result = "{}"
	switch name {
	case "query-pci":
		if f.bare {
			return "[]", true, nil
		}
		result = `[{"devices":[{"qdev_id":"video0","regions":[{"bar":0,"address":4096,"size":65536}]}]}]`
	case "human-monitor-command":
		result = fmt.Sprintf("%q", fmt.Sprintf("Host virtual address for 0x1000 (vga.vram) is %p\r\n", unsafe.Pointer(&f.screen[0])))
	case "query-blockstats":
		reads := 1
		if f.early {
			reads = 0
		}
		result = fmt.Sprintf(`[{"qdev":"/machine/peripheral/system/virtio-backend","stats":{"rd_operations":%d}}]`, reads)
	case "query-block":
		result = f.blocks()
	case "query-named-block-nodes":
		result = f.named()
	case "blockdev-add":
		if a.Driver == "file" {
			f.files[a.Node] = a.Filename
		} else {
			f.nodes[a.Node] = fakeNode{a.Node, f.files[a.File]}
		}
	case "blockdev-del":
		delete(f.nodes, a.Node)
		delete(f.files, a.Node)
	case "transaction":
		for _, act := range a.Actions {
			f.tops[strings.TrimRight(act.Data.Overlay, "0123456789")] = f.nodes[act.Data.Overlay]
		}
	case "xen-save-devices-state":
		err = os.WriteFile(a.Filename, []byte(fakeState), 0o600)
	case "closefd":
		err = syscall.Close(f.fds[a.FDName])
	case "query-migrate":
		result = `{"status":"completed"}`
	case "migrate-incoming", "migrate":
		err = f.migrate(m, name == "migrate", f.fds[strings.TrimPrefix(a.URI, "fd:")])
	case "query-jobs":
		result = "[" + strings.Join(f.jobs, ",") + "]"
	case "block-stream":
		f.jobs = append(f.jobs, fmt.Sprintf(`{"id":%q,"status":"concluded"}`, a.Job))
	case "job-dismiss":
		f.jobs = nil
	case "migrate-set-parameters", "block_resize":
	default:
		return "", false, nil
	}
	return result, true, err
}

func (f *fakeLive) blocks() string {
	var parts []string
	for dev, n := range f.tops {
		parts = append(parts, fmt.Sprintf(`{"qdev":"/machine/peripheral/%s/virtio-backend","inserted":{"node-name":%q,"file":"json:{}","image":{"virtual-size":1048576}}}`, dev, n.name))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (f *fakeLive) named() string {
	var parts []string
	for name, file := range f.files {
		parts = append(parts, fmt.Sprintf(`{"node-name":%q,"file":%q},{"node-name":%q}`, name, file, strings.TrimSuffix(name, "-file")))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// migrate writes or reads a state. Wrong bytes end QEMU, as they do.
func (f *fakeLive) migrate(m *fakeMachine, out bool, fd int) error {
	file := os.NewFile(uintptr(fd), "state")
	defer file.Close()
	if out {
		m.state = "postmigrate"
		_, err := file.WriteString(fakeStream + firstPage)
		return err
	}
	b := make([]byte, 4096)
	n, err := file.Read(b)
	if err != nil {
		return err
	}
	state := string(b[:n])
	switch {
	case strings.HasPrefix(state, fakeStream):
		copy(f.mem, state[len(fakeStream):])
	case state != fakeState || string(f.mem[:len(firstPage)]) != firstPage:
		// The memory has to be there before the devices are.
		fmt.Fprintln(os.Stderr, "qemu: load of the fake devices failed")
		syscall.Exit(1)
	}
	if f.sick {
		fmt.Fprintln(os.Stderr, "qemu: VQ 0 size 0x40 Guest index 0xa0 inconsistent with Host index 0xaa")
	}
	m.state = "paused"
	return nil
}

// fdConn is a QMP connection that keeps the descriptors that come with it.
type fdConn struct {
	*net.UnixConn

	mu  sync.Mutex
	fds []int
}

func (c *fdConn) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if oobn > 0 {
		msgs, perr := unix.ParseSocketControlMessage(oob[:oobn])
		if perr != nil {
			return n, perr
		}
		for _, m := range msgs {
			fds, perr := unix.ParseUnixRights(&m)
			if perr != nil {
				return n, perr
			}
			c.mu.Lock()
			c.fds = append(c.fds, fds...)
			c.mu.Unlock()
		}
	}
	if n == 0 && err == nil {
		err = errors.New("end of connection")
	}
	return n, err
}

// take is the descriptor that came last.
func (c *fdConn) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fds) == 0 {
		return -1
	}
	fd := c.fds[len(c.fds)-1]
	c.fds = c.fds[:len(c.fds)-1]
	return fd
}
