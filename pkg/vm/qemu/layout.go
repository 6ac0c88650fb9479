package qemu

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
)

// All names on disk.
const (
	desktopsDir   = "desktops"   // in DataDir
	accelFile     = "accel.json" // in DataDir
	lockFile      = ".lock"      // in desktops, and in the directory of sockets
	socketsDir    = "vm"         // in RuntimeDir
	journalFile   = "journal.json"
	systemFile    = "system.qcow2"
	workspaceFile = "workspace.qcow2"
	ramFile       = "ram"
	// QEMULogFile and SerialLogFile lie in vm.Info.Dir.
	QEMULogFile   = "qemu.log"
	SerialLogFile = "serial.log"

	// In RuntimeDir/vm/INCARNATION.
	qmpSocket   = "qmp"
	vncSocket   = "vnc"
	netLocal    = "net-g" // QEMU's end
	netRemote   = "net-h" // the host's end
	guestConfig = "config.json"
)

// layout is where one incarnation lies.
type layout struct {
	id   vm.ID
	inc  vm.Incarnation
	uuid string // identity on QEMU's command line
	dir  string // state
	run  string // sockets
}

// uuidSpace is our name space for version 5 UUIDs.
func uuidSpace() uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://deskfork.dev/incarnation"))
}

// layout derives all names; two data directories give two identities to equal
// ids.
func (p *Provider) layout(id vm.ID, inc vm.Incarnation) layout {
	name := strings.Join([]string{p.cfg.DataDir, string(id), string(inc)}, "\x00")
	return layout{
		id: id, inc: inc,
		uuid: uuid.NewSHA1(uuidSpace(), []byte(name)).String(),
		dir:  filepath.Join(p.cfg.DataDir, desktopsDir, string(id), string(inc)),
		run:  filepath.Join(p.cfg.RuntimeDir, socketsDir, string(inc)),
	}
}

func (l layout) file(name string) string   { return filepath.Join(l.dir, name) }
func (l layout) socket(name string) string { return filepath.Join(l.run, name) }

// makeDirs makes the directories of an incarnation. The state directory stays
// ours, so that QEMU cannot forge a journal; only files in it are QEMU's. The
// runtime directory is QEMU's, for it makes sockets there.
func (p *Provider) makeDirs(l layout) error {
	if err := p.makeShared(filepath.Dir(l.dir)); err != nil {
		return err
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = vm.ErrExists
		}
		return fmt.Errorf("make directory %s: %w", l.dir, err)
	}
	if u := p.cfg.User; u != nil {
		if err := errors.Join(os.Chown(l.dir, -1, int(u.GID)), os.Chmod(l.dir, 0o710)); err != nil {
			return fmt.Errorf("give directory to QEMU's group: %w", err)
		}
	}
	return nil
}

// makeShared makes a directory of ours that QEMU's user passes through.
func (p *Provider) makeShared(dir string) error {
	mode := fs.FileMode(0o700)
	if p.cfg.User != nil {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

func (p *Provider) makeRuntimeDir(l layout) error {
	if err := os.Mkdir(l.run, 0o700); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	return p.giveAway(l.run)
}

// makeFile makes an empty file that QEMU may write, size bytes long, sparse.
func (p *Provider) makeFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("make file %s: %w", path, err)
	}
	return p.giveAway(path)
}

// giveAway hands a file to QEMU's user, without following links, readable to
// that user alone.
func (p *Provider) giveAway(path string) error {
	u := p.cfg.User
	if u == nil {
		return nil
	}
	if err := os.Lchown(path, int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("give file to QEMU's user: %w", err)
	}
	return nil
}

// allocated sums the disk space of the files right in dir, in bytes.
func allocated(dir string) int64 {
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
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
			sum += st.Blocks * 512
		}
	}
	return sum
}
