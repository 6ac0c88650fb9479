package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
	"github.com/deskfork/deskfork/pkg/vm/qemu/probe"
)

// Config of a Provider.
type Config struct {
	// DataDir holds desktops/ID/INCARNATION and accel.json. Required, absolute.
	DataDir string
	// RuntimeDir holds the sockets, in vm/INCARNATION/. Required, absolute, at
	// most 80 bytes. vm/ belongs to this provider alone: Recover removes from it
	// what belongs to no machine.
	RuntimeDir string
	// QEMU, QEMUImg and Mke2fs are programs. Empty: qemu-system-x86_64,
	// qemu-img and mke2fs, looked up in PATH and the sbin directories.
	QEMU    string
	QEMUImg string
	Mke2fs  string
	// Accelerator: empty means auto, the best one that was proven to run.
	Accelerator vm.Accelerator
	// User runs QEMU when we are root. nil: our own user.
	User *User
	// Network makes the private network of a machine. nil: machines have no
	// network device and DialGuest answers vm.ErrNoNetwork.
	Network NetworkFunc
	// CgroupRoot is a cgroup v2 directory of this provider alone; each machine
	// gets a child of it with limits. Empty: no cgroups.
	CgroupRoot string
	// OOMScoreAdj makes the kernel end machines before the daemon. 0: 300.
	OOMScoreAdj int
	// TBSizeMiB bounds translated code under TCG. 0: the default of argv.
	TBSizeMiB int
	// LogLimit is how long a machine's log may grow before it is cut down to its
	// end, in bytes. 0: 64 MiB. LogEvery is how often that is looked at. 0: 10 s.
	LogLimit int64
	LogEvery time.Duration
	// MaxOverlays is on how many overlays a disk may stand before they are
	// copied up in the background, after a snapshot. 0: 8.
	MaxOverlays int
	// Logger: nil is silent.
	Logger *slog.Logger
	// Trace is told the name of each step of Create and Destroy once it is
	// done, in order, before the next begins. nil: nobody.
	Trace func(step string)
}

// User is whom QEMU runs as.
type User = owner.User

// LookupUser returns the user with this name or number, with the group of
// /dev/kvm where that is not root's, so that hardware acceleration works.
func LookupUser(name string) (*User, error) { return owner.Lookup(name) }

// NetworkSpec describes the link of one machine.
type NetworkSpec struct {
	ID     vm.ID
	Mode   vm.NetworkMode
	Local  string // unix datagram socket that QEMU binds; it appears when QEMU runs
	Remote string // unix datagram socket that the network binds before it returns
	Logger *slog.Logger
}

// Network is the host's end of a machine's private network.
type Network interface {
	// DialContext dials an address of that network.
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Close() error
}

// NetworkFunc makes a network. Remote is bound when it returns; Local is
// written to once it exists. After a restart it is called again for a machine
// that runs already. ctx bounds the call, not the network's life.
type NetworkFunc func(ctx context.Context, spec NetworkSpec) (Network, error)

// MaxRuntimeDir is how long RuntimeDir may be, in bytes: with
// /vm/INCARNATION/SOCKET behind it a socket's path stays below 107.
const MaxRuntimeDir = 80

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var errs []error
	for name, dir := range map[string]string{"DataDir": c.DataDir, "RuntimeDir": c.RuntimeDir} {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("%s %q: want an absolute path", name, dir))
		}
	}
	if len(c.RuntimeDir) > MaxRuntimeDir {
		errs = append(errs, fmt.Errorf("RuntimeDir %q: %d bytes, but a socket's path has room for %d; choose a shorter one",
			c.RuntimeDir, len(c.RuntimeDir), MaxRuntimeDir))
	}
	if c.LogLimit < 0 || c.LogEvery < 0 || c.MaxOverlays < 0 {
		errs = append(errs, errors.New("LogLimit, LogEvery and MaxOverlays must not be negative"))
	}
	switch c.Accelerator {
	case "", vm.AccelAuto, vm.AccelKVM, vm.AccelTCG:
	default:
		errs = append(errs, fmt.Errorf("accelerator %q: want auto, kvm or tcg", c.Accelerator))
	}
	return errors.Join(errs...)
}

// fill sets the defaults.
func (c *Config) fill() {
	c.DataDir, c.RuntimeDir = filepath.Clean(c.DataDir), filepath.Clean(c.RuntimeDir)
	c.QEMU = probe.Find(c.QEMU, "qemu-system-x86_64")
	c.QEMUImg = probe.Find(c.QEMUImg, "qemu-img")
	c.Mke2fs = probe.Find(c.Mke2fs, "mke2fs")
	c.OOMScoreAdj = cmp.Or(c.OOMScoreAdj, 300)
	c.LogLimit = cmp.Or(c.LogLimit, 64<<20)
	c.LogEvery = cmp.Or(c.LogEvery, 10*time.Second)
	c.MaxOverlays = cmp.Or(c.MaxOverlays, 8)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Trace == nil {
		c.Trace = func(string) {}
	}
}
