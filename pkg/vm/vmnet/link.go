package vmnet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// linkSendBuffer is asked of the kernel, in bytes: a dozen frames of 64 KiB.
	linkSendBuffer = 1 << 20
	// linkPatience is how long a frame waits for a hypervisor whose queue is
	// full. That of a running one drains in less, even when software emulates it;
	// that of a paused one does not, and whoever sends holds locks that other
	// calls need. Only the first frame of a pause waits.
	linkPatience = 100 * time.Millisecond
)

// link is our end of the cable, as the switch wants it: a net.Conn whose Read
// and Write carry one Ethernet frame each. Read yields only frames that admit
// lets in. Write never fails: the switch would end its port.
type link struct {
	*net.UnixConn
	raw     syscall.RawConn
	to      *unix.SockaddrUnix
	bound   fs.FileInfo // of the socket file
	path    string
	stalled atomic.Bool // the last frame found the queue full
	closed  atomic.Bool
	dropped atomic.Uint64 // frames not taken by the other end
	refused atomic.Uint64 // frames not let in
}

// newLink binds remote, where the hypervisor sends to. A socket that an earlier
// process left there is removed; anything else is not.
func newLink(local, remote string) (*link, error) {
	switch fi, err := os.Lstat(remote); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s exists and is not a socket: remove it", remote)
	default:
		if err := os.Remove(remote); err != nil {
			return nil, err
		}
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: remote, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	l := &link{UnixConn: conn, to: &unix.SockaddrUnix{Name: local}, path: remote}
	if err := l.prepare(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *link) prepare() error {
	var err error
	if err = os.Chmod(l.path, 0o600); err != nil {
		return err
	}
	if l.bound, err = os.Lstat(l.path); err != nil {
		return err
	}
	if err = l.SetWriteBuffer(linkSendBuffer); err != nil {
		return err
	}
	l.raw, err = l.SyscallConn()
	return err
}

// RemoteAddr is never nil, unlike that of an unconnected socket: the switch
// prints it.
func (l *link) RemoteAddr() net.Addr { return &net.UnixAddr{Name: l.to.Name, Net: "unixgram"} }

// Read returns the next frame that was let in. After Close it returns one empty
// frame, so that the switch looks at its context and ends without complaint.
func (l *link) Read(b []byte) (int, error) {
	for {
		n, err := l.UnixConn.Read(b)
		if err != nil && l.closed.Load() {
			return copy(b, farewell()), nil
		}
		if err != nil {
			return 0, err
		}
		if admit(b[:n]) {
			return n, nil
		}
		l.refused.Add(1)
	}
}

// farewell is a frame to nobody.
func farewell() []byte {
	f := make([]byte, ethernetSize)
	copy(f[6:12], guestMAC[:])
	return f
}

// Write sends one frame or drops it: when the other end is missing, when its
// queue stays full, when the link is closed.
func (l *link) Write(frame []byte) (int, error) {
	err := l.send(frame, false)
	if errors.Is(err, unix.EAGAIN) && !l.stalled.Load() {
		err = l.send(frame, true)
		l.stalled.Store(err != nil)
	} else if err == nil {
		l.stalled.Store(false)
	}
	if err != nil {
		l.dropped.Add(1)
	}
	return len(frame), nil
}

// send tries once, or until linkPatience has passed.
func (l *link) send(frame []byte, wait bool) error {
	if wait {
		if err := l.SetWriteDeadline(time.Now().Add(linkPatience)); err != nil {
			return err
		}
	}
	var sent error
	err := l.raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), frame, unix.MSG_NOSIGNAL, l.to)
		return !wait || !errors.Is(sent, unix.EAGAIN)
	})
	if wait {
		// A deadline left behind would fail the next try before it is made.
		_ = l.SetWriteDeadline(time.Time{})
	}
	return errors.Join(err, sent)
}

// Close ends the link and removes its socket file, unless another process has
// bound the path since. It is idempotent.
func (l *link) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.bound) {
		_ = os.Remove(l.path)
	}
	return l.UnixConn.Close()
}
