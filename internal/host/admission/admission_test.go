package admission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/admission"
)

const mib = 1 << 20

func ledger(t *testing.T, memory, disk int64) *admission.Ledger {
	t.Helper()
	l, err := admission.New(admission.Config{Usage: func() (admission.Usage, error) {
		return admission.Usage{MemoryAvailable: memory * mib, DiskAvailable: disk * mib}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestReserve(t *testing.T) {
	tests := []struct {
		name         string
		memory, disk int64 // MiB left
		says         string
	}{
		{"fits", 2048 + 256 + 512, 20000, ""},
		{"memory short by one", 2048 + 256 + 511, 20000, "memory: needs 2304 MiB (2048 for the shape, 256 for the hypervisor); 2815 MiB available, 0 reserved by 0 starting, 512 kept free"},
		{"disk smaller than the worst case", 1 << 20, 14335, "disk: would grow to 14336 MiB at worst; 14335 MiB available"},
		{"both", 0, 0, "; disk:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ledger(t, tt.memory, tt.disk).Reserve(admission.Need{MemoryMiB: 2048, DiskMiB: 14336})
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says != "" && (!errors.Is(err, admission.ErrNoCapacity) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("refusal is %v, want %q", err, tt.says)
			}
		})
	}
}

func TestReservationsCount(t *testing.T) {
	l := ledger(t, 5500, 3050)
	need := admission.Need{MemoryMiB: 2048, DiskMiB: 3000}
	first, err := l.Reserve(need)
	if err != nil {
		t.Fatal(err)
	}
	// 3050 - 512 - 512 is under the floor of 2048 for a second one.
	_, err = l.Reserve(need)
	if err == nil || !strings.Contains(err.Error(), "512 reserved by 1 starting, 2048 kept free") {
		t.Errorf("the second answers %v", err)
	}
	first()
	first()
	if _, err := l.Reserve(need); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestNoNewDisk: what has its disks already is not refused for want of space.
func TestNoNewDisk(t *testing.T) {
	if _, err := ledger(t, 5500, 3).Reserve(admission.Need{Clone: true, OwnMiB: 100}); err != nil {
		t.Error(err)
	}
}

func FuzzParseMeminfo(f *testing.F) {
	f.Add([]byte("MemTotal:       24689444 kB\nMemFree: 1 kB\nMemAvailable:   23004780 kB\n"))
	f.Add([]byte("MemTotal: -1 kB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := admission.ParseMeminfo(text)
		if err == nil && (u.MemoryTotal < 0 || u.MemoryAvailable < 0) {
			t.Errorf("usage is %+v", u)
		}
	})
}

func TestHostUsage(t *testing.T) {
	u, err := admission.HostUsage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if u.MemoryAvailable <= 0 || u.MemoryAvailable > u.MemoryTotal || u.DiskAvailable > u.DiskTotal || u.DiskTotal <= 0 {
		t.Errorf("usage is %+v", u)
	}
}
