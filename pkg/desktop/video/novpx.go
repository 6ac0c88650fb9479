//go:build !cgo

package video

import (
	"fmt"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Codecs lists what this build encodes, the best first.
func Codecs() []Codec { return []Codec{Tiles} }

func newVPX(cfg Config) (Encoder, error) {
	return nil, fmt.Errorf("encode %s: this program was built without cgo: %w", cfg.Codec, desktop.ErrUnsupported)
}
