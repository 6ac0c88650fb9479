//go:build linux

// Package singleton has a Chromium that runs open addresses, as its second start
// would: that one looks for the first, hands over what it was given and ends. The
// start is left out, which on a slow machine takes longer than the page. How the
// two talk is told by chrome/browser/process_singleton_posix.cc of Chromium.
package singleton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names in a profile's directory. Both are links: to the socket, and to no file at
// all but by name to a cookie that lies beside the socket too.
const (
	socketName = "SingletonSocket"
	cookieName = "SingletonCookie"
)

const (
	maxMessage = 32 << 10 // Chromium's own limit, in bytes
	limit      = 20 * time.Second
)

var (
	// ErrNone says that nobody takes addresses for the profile: start the browser.
	ErrNone = errors.New("no browser runs on this profile")
	// ErrInvalid says that an address cannot be handed over.
	ErrInvalid = errors.New("not an address")
)

// Open has the browser of a profile directory open addresses, each in a tab; dir is
// what relative ones are relative to. It returns the browser's process. Waits 20 s
// at most. Errors: ErrNone, ErrInvalid, or the context's.
func Open(ctx context.Context, profile, dir string, addresses ...string) (pid int, err error) {
	message, err := encode(dir, addresses)
	if err != nil {
		return 0, err
	}
	socket, err := find(profile)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := exchange(c.(*net.UnixConn), message) // as dialled
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("hand over to the browser: %w", context.Cause(ctx))
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	case answer != "ACK": // "SHUTDOWN": it is about to end
		return 0, fmt.Errorf("%w: it answers %.16q", ErrNone, answer)
	}
	return peer(c.(*net.UnixConn))
}

// encode is START, the directory and the command line, each ended by a zero byte
// but the last.
func encode(dir string, addresses []string) ([]byte, error) {
	parts := append([]string{"START", dir, "chromium"}, addresses...)
	for _, a := range addresses {
		if a == "" || strings.HasPrefix(a, "-") {
			return nil, fmt.Errorf("%w: %q", ErrInvalid, a)
		}
	}
	if slices.ContainsFunc(parts, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		return nil, fmt.Errorf("%w: a zero byte in it", ErrInvalid)
	}
	message := strings.Join(parts, "\x00")
	if len(message) > maxMessage {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrInvalid, maxMessage)
	}
	return []byte(message), nil
}

// find returns the socket, if its directory has the profile's cookie: a socket that
// somebody else has put where an old one was has not.
func find(profile string) (string, error) {
	socket, err := os.Readlink(filepath.Join(profile, socketName))
	if err != nil {
		return "", err
	}
	want, err := os.Readlink(filepath.Join(profile, cookieName))
	if err != nil {
		return "", err
	}
	has, err := os.Readlink(filepath.Join(filepath.Dir(socket), cookieName))
	if err != nil {
		return "", err
	}
	if want == "" || has != want {
		return "", errors.New("the socket is not the profile's")
	}
	return socket, nil
}

func exchange(c *net.UnixConn, message []byte) (string, error) {
	if _, err := c.Write(message); err != nil {
		return "", err
	}
	if err := c.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 64))
	return string(answer), err
}

func peer(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, cerr
	}
	return int(cred.Pid), nil
}
