package accel

import (
	_ "embed" // the probe guest
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

//go:embed probe.bin
var probeGuest []byte

// blob returns the probe guest as a memory file, which QEMU opens through
// /proc whatever its user: no temporary file to leave behind.
func blob() (*os.File, error) {
	fd, err := unix.MemfdCreate("deskfork-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "deskfork-probe")
	if _, err := f.Write(probeGuest); err != nil {
		f.Close()
		return nil, fmt.Errorf("fill memory file: %w", err)
	}
	return f, nil
}

// key is all that a result depends on.
type key struct {
	Boot    string         `json:"boot"` // boot id of the host
	QEMU    string         `json:"qemu"`
	Version string         `json:"version"`
	CPU     string         `json:"cpu"`
	Want    vm.Accelerator `json:"want"`
	UID     int            `json:"uid"`
	// Groups of that user: who joins that of the device need not boot.
	Groups string `json:"groups"`
	// KVM is the device node as it is now: owner and mode may be mended
	// without a boot.
	KVM string `json:"kvm"`
}

type cached struct {
	Key    key    `json:"key"`
	Result Result `json:"result"`
}

func (p *Prober) key(want vm.Accelerator) (key, error) {
	boot, err := proc.BootID()
	if err != nil {
		return key{}, err
	}
	k := key{Boot: boot, QEMU: p.cfg.QEMU, Version: p.cfg.Version, CPU: p.cfg.CPU, Want: want, KVM: "none"}
	cred := p.cfg.Credential
	if cred == nil {
		cred = owner.Self().Credential()
	}
	k.UID, k.Groups = int(cred.Uid), fmt.Sprint(cred.Gid, cred.Groups)
	var st unix.Stat_t
	if unix.Stat(kvmDevice, &st) == nil {
		k.KVM = fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
	}
	return k, nil
}

// load takes an unreadable or foreign cache for none.
func (p *Prober) load(k key) (Result, bool) {
	if p.cfg.Cache == "" {
		return Result{}, false
	}
	b, err := os.ReadFile(p.cfg.Cache)
	if err != nil {
		return Result{}, false
	}
	var c cached
	if json.Unmarshal(b, &c) != nil || c.Key != k || c.Result.Accelerator == "" {
		return Result{}, false
	}
	c.Result.Cached = true
	return c.Result, true
}

func (p *Prober) store(k key, r Result) error {
	if p.cfg.Cache == "" {
		return nil
	}
	b, err := json.MarshalIndent(cached{k, r}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode accelerator result: %w", err)
	}
	return atomicfile.Write(p.cfg.Cache, append(b, '\n'), 0o600)
}
