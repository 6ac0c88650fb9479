package guesttest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Kernel remembers what it was asked to do. Err, when set, is what it answers.
type Kernel struct {
	mu    sync.Mutex
	state KernelState
	err   error
}

// KernelState is what a Kernel was asked so far.
type KernelState struct {
	Clock    time.Time
	Entropy  [][]byte
	Hostname string
	Mounts   map[string]string // directory to device
	Power    string
}

// State is a copy.
func (k *Kernel) State() KernelState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state
	s.Entropy = slices.Clone(s.Entropy)
	return s
}

// Fail makes every later call return err; nil ends that.
func (k *Kernel) Fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *Kernel) do(fn func(*KernelState)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		fn(&k.state)
	}
	return k.err
}

// SetClock implements system.Kernel.
func (k *Kernel) SetClock(now time.Time) error {
	return k.do(func(s *KernelState) { s.Clock = now })
}

// Reseed implements system.Kernel.
func (k *Kernel) Reseed(entropy []byte) error {
	return k.do(func(s *KernelState) { s.Entropy = append(s.Entropy, entropy) })
}

// SetHostname implements system.Kernel.
func (k *Kernel) SetHostname(name string) error {
	return k.do(func(s *KernelState) { s.Hostname = name })
}

// Mount implements system.Kernel.
func (k *Kernel) Mount(device, dir string, _ system.Owner) error {
	return k.do(func(s *KernelState) {
		mounts := map[string]string{dir: device}
		maps.Copy(mounts, s.Mounts)
		s.Mounts = mounts
	})
}

// Power implements system.Kernel.
func (k *Kernel) Power(mode string) error {
	return k.do(func(s *KernelState) { s.Power = mode })
}

// Info implements system.Kernel.
func (k *Kernel) Info() (info guest.Info, err error) {
	err = k.do(func(s *KernelState) {
		info = guest.Info{Hostname: s.Hostname, Kernel: "guesttest", Now: s.Clock, Uptime: time.Minute, MemTotal: 2 << 30, MemAvailable: 1 << 30}
	})
	return info, err
}

var _ system.Kernel = (*Kernel)(nil)
