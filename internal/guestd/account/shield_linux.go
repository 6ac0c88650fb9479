package account

import (
	"io"
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
	mu   sync.Mutex
	file *os.File
	own  string
}

// NewShield reads this process's protection; nil when it has none.
func NewShield() *Shield {
	f, err := os.OpenFile(oomFile, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(f)
	own := strings.TrimSpace(string(b))
	if err != nil || !strings.HasPrefix(own, "-") {
		f.Close()
		return nil
	}
	return &Shield{file: f, own: own}
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
	_, _ = s.file.WriteAt([]byte("0"), 0)
	defer func() { _, _ = s.file.WriteAt([]byte(s.own), 0) }()
	return start()
}
