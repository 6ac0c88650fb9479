// Package incarnation is what one run of a machine leaves on the host: its
// directories and files, the journal that a later daemon reads, and how all of
// it goes away.
package incarnation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

// Names on disk.
const (
	Desktops  = "desktops"  // in the data directory
	Templates = "templates" // in the data directory
	Blanks    = "blanks"    // in the data directory
	Lock      = ".lock"     // in desktops, and in the directory of sockets

	sockets = "vm" // in the runtime directory

	// In DATA/desktops/ID/INCARNATION.
	System    = "system.qcow2"
	Workspace = "workspace.qcow2"
	RAM       = "ram"
	QEMULog   = "qemu.log"
	SerialLog = "serial.log"

	journalFile = "journal.json"

	// In RUN/vm/INCARNATION.
	QMP       = "qmp"
	VNC       = "vnc"
	NetLocal  = "net-g" // QEMU's end
	NetRemote = "net-h" // the host's end
	Config    = "config.json"
)

// Root is where incarnations lie, and whose files they are.
type Root struct {
	Data    string
	Runtime string
	User    *owner.User // whom QEMU runs as; nil is our own
}

// Sockets is the directory of runtime directories.
func (r Root) Sockets() string { return filepath.Join(r.Runtime, sockets) }

// Desktops is the directory of state directories.
func (r Root) Desktops() string { return filepath.Join(r.Data, Desktops) }

// Home is where one incarnation lies.
type Home struct {
	ID   vm.ID
	Inc  vm.Incarnation
	UUID string // identity on QEMU's command line
	Dir  string // state
	Run  string // sockets
}

// uuidSpace is our name space for version 5 UUIDs.
func uuidSpace() uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://deskfork.dev/incarnation"))
}

// Home derives all names; two data directories give two identities to equal
// ids.
func (r Root) Home(id vm.ID, inc vm.Incarnation) Home {
	name := strings.Join([]string{r.Data, string(id), string(inc)}, "\x00")
	return Home{
		ID: id, Inc: inc,
		UUID: uuid.NewSHA1(uuidSpace(), []byte(name)).String(),
		Dir:  filepath.Join(r.Desktops(), string(id), string(inc)),
		Run:  filepath.Join(r.Sockets(), string(inc)),
	}
}

// File is a file of the state directory.
func (h Home) File(name string) string { return filepath.Join(h.Dir, name) }

// Socket is a socket, or another file, of the runtime directory.
func (h Home) Socket(name string) string { return filepath.Join(h.Run, name) }

// MakeDirs makes the directories of an incarnation. The state directory stays
// ours, so that QEMU cannot forge a journal; only files in it are QEMU's. The
// runtime directory is QEMU's, for it makes sockets there.
func (r Root) MakeDirs(h Home) error {
	if err := r.MakeShared(filepath.Dir(h.Dir)); err != nil {
		return err
	}
	if err := os.Mkdir(h.Dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = vm.ErrExists
		}
		return fmt.Errorf("make directory %s: %w", h.Dir, err)
	}
	if u := r.User; u != nil {
		if err := errors.Join(os.Chown(h.Dir, -1, int(u.GID)), os.Chmod(h.Dir, 0o710)); err != nil {
			return fmt.Errorf("give directory to QEMU's group: %w", err)
		}
	}
	return nil
}

// MakeShared makes a directory of ours that QEMU's user passes through. An error
// says which directory on the way does not let that user.
func (r Root) MakeShared(dir string) error {
	mode := fs.FileMode(0o700)
	if r.User != nil {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if r.User == nil {
		return nil
	}
	if blocked := r.User.Unreachable(dir); blocked != "" {
		return fmt.Errorf("machines run as user %d, who cannot pass through %s: chmod o+x it, or choose another directory: %w",
			r.User.UID, blocked, fs.ErrPermission)
	}
	return nil
}

// MakeRuntimeDir makes the directory of sockets, for QEMU to make them in.
func (r Root) MakeRuntimeDir(h Home) error {
	if err := os.Mkdir(h.Run, 0o700); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	return r.Give(h.Run)
}

// MakeFile makes an empty file that QEMU may write, size bytes long, sparse.
func (r Root) MakeFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("make file %s: %w", path, err)
	}
	return r.Give(path)
}

// Give hands a file to QEMU's user, without following links, readable to
// that user alone.
func (r Root) Give(path string) error {
	u := r.User
	if u == nil {
		return nil
	}
	if err := os.Lchown(path, int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("give file to QEMU's user: %w", err)
	}
	return nil
}

// Take makes a file ours again, for QEMU's user to read.
func (r Root) Take(path string) error {
	u := r.User
	if u == nil {
		return os.Chmod(path, 0o400)
	}
	if err := errors.Join(os.Lchown(path, os.Geteuid(), int(u.GID)), os.Chmod(path, 0o440)); err != nil {
		return fmt.Errorf("take file back from QEMU's user: %w", err)
	}
	return nil
}

// Allocated sums the disk space of the files right in dir, in bytes, without
// those that have another name elsewhere: they are the store's.
func Allocated(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var sum int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && st.Nlink == 1 {
			sum += st.Blocks * 512
		}
	}
	return sum
}

// All lists all incarnations on disk, and directories of desktops without any.
func (r Root) All() (all []Home, empty []string, err error) {
	root := r.Desktops()
	desktops, err := os.ReadDir(root)
	if err != nil {
		return nil, nil, fmt.Errorf("list desktops: %w", err)
	}
	for _, d := range desktops {
		id := vm.ID(d.Name())
		if !d.IsDir() || id.Validate() != nil {
			continue
		}
		incs, err := os.ReadDir(filepath.Join(root, d.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list incarnations: %w", err)
		}
		if len(incs) == 0 {
			empty = append(empty, filepath.Join(root, d.Name()))
		}
		for _, i := range incs {
			inc := vm.Incarnation(i.Name())
			if i.IsDir() && inc.Validate() == nil {
				all = append(all, r.Home(id, inc))
			}
		}
	}
	return all, empty, nil
}
