// Package portable is the beginning of an exported snapshot: what the host knows
// of it. The provider's part follows. It is a frame that zstd skips, so that the
// whole is what its content type says: zstd -t tests it.
package portable

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/vm"
)

const (
	skippable = 0x184D2A5D // little-endian, then the size of what is skipped in 4 bytes (RFC 8878, 3.1.2)
	magic     = "deskfork snapshot 1\n"
	maxHeader = 1 << 20 // bytes
)

type header struct {
	Sealed  store.Sealed `json:"sealed"`
	PauseMS float64      `json:"pause_ms"`
}

// Write writes the beginning.
func Write(w io.Writer, snap store.Snapshot) error {
	body, err := json.Marshal(header{Sealed: snap.Sealed, PauseMS: snap.PauseMS})
	if err != nil {
		return fmt.Errorf("encode snapshot %s: %w", snap.ID, err)
	}
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint32(nil, skippable))
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(magic)+len(body))))
	b.WriteString(magic)
	b.Write(body)
	_, err = w.Write(b.Bytes())
	return err
}

// Read reads the beginning, and nothing of what follows. What is none is
// vm.ErrCorrupt.
func Read(r io.Reader) (store.Snapshot, error) {
	bad := func(format string, args ...any) (store.Snapshot, error) {
		return store.Snapshot{}, fmt.Errorf("read snapshot: %w: %s", vm.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	start := make([]byte, 8+len(magic))
	if _, err := io.ReadFull(r, start); err != nil {
		return bad("it ends in its first line: %v", err)
	}
	if binary.LittleEndian.Uint32(start) != skippable || string(start[8:]) != magic {
		return bad("it is not an exported snapshot")
	}
	size := int64(binary.LittleEndian.Uint32(start[4:])) - int64(len(magic))
	if size < 0 || size > maxHeader {
		return bad("its description has %d bytes, more than %d or less than none", size, maxHeader)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return bad("it ends in its description: %v", err)
	}
	var h header
	if err := json.Unmarshal(body, &h); err != nil {
		return bad("its description does not parse: %v", err)
	}
	d := h.Sealed.Desktop
	if _, ok := vm.ShapeNamed(d.Shape); !ok || d.ImageDigest == "" || len(h.Sealed.Source.Tokens) == 0 || d.WorkspaceMiB < 1 {
		return bad("its description lacks a shape, an image, a token or a workspace")
	}
	h.Sealed.Attached = store.Attachment{} // of the store of the host that it was made on
	var snap store.Snapshot
	snap.ImageDigest, snap.Sealed, snap.PauseMS = d.ImageDigest, h.Sealed, h.PauseMS
	return snap, nil
}
