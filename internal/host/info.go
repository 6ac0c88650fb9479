package host

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/api"
)

// Info describes the host.
func (h *Host) Info(ctx context.Context) (api.Info, error) {
	caps, err := h.cfg.Provider.Capabilities(ctx)
	if err != nil {
		return api.Info{}, err
	}
	usage, err := h.cfg.Usage()
	if err != nil {
		return api.Info{}, err
	}
	return api.Info{
		Version: h.cfg.Version, Provider: caps.Provider, ProviderVersion: caps.Version,
		Accelerator: string(caps.Accelerator), AcceleratorReason: caps.AcceleratorReason,
		MemoryTotal: usage.MemoryTotal, MemoryAvailable: usage.MemoryAvailable,
		DiskAvailable: usage.DiskAvailable, Desktops: len(h.all()),
	}, nil
}

// measure adds what a desktop takes now. What cannot be measured stays zero.
func (d *desktop) measure(v api.Desktop) api.Desktop {
	_, m, _ := d.parts()
	if m == nil {
		return v
	}
	info := m.Info()
	if info.PID > 0 && !isClosed(m.Done()) {
		if n, err := proc.Memory(info.PID); err == nil {
			v.MemoryPrivate = n
		}
	}
	if info.Dir != "" {
		v.DiskPrivate = allocated(info.Dir)
	}
	return v
}

// allocated is the disk space that the files of a directory take, in bytes.
func allocated(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // files come and go while a desktop is removed
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum
}
