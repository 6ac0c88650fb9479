package host

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/policy"
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
func measure(d *desk.Desktop) api.Desktop {
	_, m, v := d.Parts()
	if m == nil {
		return v
	}
	info := m.Info()
	v.MemoryPrivate, v.DiskPrivate = info.MemoryBytes, info.DiskBytes
	v.CPUSeconds = policy.CPUTime(info).Round(time.Millisecond).Seconds()
	return v
}

// describe is measure, with who has control.
func (h *Host) describe(d *desk.Desktop) api.Desktop {
	v := measure(d)
	v.InControl = h.Controls.Holder(d.ID)
	return v
}
