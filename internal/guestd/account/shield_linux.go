package account

import (
	"os"
	"strings"
	"sync"
)

// oomFile holds how likely the kernel is to end this process when memory runs
// out; children begin with their parent's value.
const oomFile = "/proc/self/oom_score_adj"

// Shield keeps guestd's own protection from the out-of-memory killer from its
// children.
type Shield struct {
	mu  sync.Mutex
	own string
}

// NewShield reads this process's protection; nil when it has none.
func NewShield() *Shield {
	b, err := os.ReadFile(oomFile)
	own := strings.TrimSpace(string(b))
	if err != nil || !strings.HasPrefix(own, "-") {
		return nil
	}
	return &Shield{own: own}
}

// Lower runs start, which starts a child, without the protection. A nil Shield
// just runs it.
func (s *Shield) Lower(start func() error) error {
	if s == nil {
		return start()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Where it cannot be changed, the child is protected: no reason not to run.
	_ = os.WriteFile(oomFile, []byte("0"), 0)
	defer func() { _ = os.WriteFile(oomFile, []byte(s.own), 0) }()
	return start()
}
