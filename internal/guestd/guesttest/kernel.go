package guesttest

import (
	"crypto/rand"
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
	ahead time.Duration // of the test's clock
	err   error

	repeat string // the UUID that is drawn; empty: each is another one
}

// KernelState is what a Kernel was asked so far.
type KernelState struct {
	Clock    time.Time // what the guest's clock says now
	Set      int       // how often it was set
	Entropy  [][]byte
	UUIDs    int // drawn
	Hostname string
	Mounts   map[string]string // directory to device
	Power    string
	Frozen   bool // the workspace
	Freezes  int  // so far
}

// State is a copy.
func (k *Kernel) State() KernelState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state
	s.Entropy = slices.Clone(s.Entropy)
	s.Clock = time.Now().Add(k.ahead)
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

// Clock implements system.Kernel.
func (k *Kernel) Clock() time.Time { return k.State().Clock }

// SetClock implements system.Kernel.
func (k *Kernel) SetClock(now time.Time) error {
	return k.do(func(s *KernelState) {
		k.ahead = time.Until(now)
		s.Set++
	})
}

// Reseed implements system.Kernel. Each UUID is another one.
func (k *Kernel) Reseed(entropy []byte) (uuid string, err error) {
	err = k.do(func(s *KernelState) {
		if len(entropy) > 0 {
			s.Entropy = append(s.Entropy, entropy)
		}
		s.UUIDs++
		if uuid = k.repeat; uuid == "" {
			uuid = rand.Text()
		}
	})
	return uuid, err
}

// Repeat makes every later UUID the same one, as in a clone whose randomness was
// not renewed.
func (k *Kernel) Repeat(uuid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.repeat = uuid
}

// SetHostname implements system.Kernel.
func (k *Kernel) SetHostname(name string) error {
	return k.do(func(s *KernelState) { s.Hostname = name })
}

// Mount implements system.Kernel.
func (k *Kernel) Mount(v system.Volume) (device string, err error) {
	err = k.do(func(s *KernelState) {
		if v.Device != "" {
			mounts := map[string]string{v.Dir: v.Device}
			maps.Copy(mounts, s.Mounts)
			s.Mounts = mounts
		}
		device = s.Mounts[v.Dir]
	})
	return device, err
}

// Power implements system.Kernel.
func (k *Kernel) Power(mode string) error {
	return k.do(func(s *KernelState) { s.Power = mode })
}

// Info implements system.Kernel.
func (k *Kernel) Info() (info guest.Info, err error) {
	err = k.do(func(s *KernelState) {
		info = guest.Info{Hostname: s.Hostname, Kernel: "guesttest", Now: time.Now().Add(k.ahead), Uptime: time.Minute, MemTotal: 2 << 30, MemAvailable: 1 << 30}
	})
	return info, err
}

var _ system.Kernel = (*Kernel)(nil)

// Freeze implements system.Freezer. What is not mounted cannot be frozen.
func (k *Kernel) Freeze(dir string) (device string, err error) {
	err = k.do(func(s *KernelState) {
		if device = s.Mounts[dir]; device != "" {
			s.Frozen = true
			s.Freezes++
		}
	})
	if err == nil && device == "" {
		err = &guest.Error{Code: guest.CodeNotFound, Message: "nothing is mounted at " + dir}
	}
	return device, err
}

// Thaw implements system.Freezer.
func (k *Kernel) Thaw(string) (was bool, err error) {
	err = k.do(func(s *KernelState) { was, s.Frozen = s.Frozen, false })
	return was, err
}

var _ system.Freezer = (*Kernel)(nil)
