package workspace

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of a manifest.
const (
	MaxManifest = 256 << 20 // bytes encoded
	MaxChunk    = 1 << 20   // plain bytes of a chunk
	MaxDisk     = 16 << 40  // bytes
)

// Hash is SHA-256 of plain bytes, or HMAC-SHA-256 where the store is encrypted.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Manifest is a whole checkpoint: what a restore needs besides the packs.
type Manifest struct {
	Ref

	Parent  Ref
	Created time.Time // whole seconds, UTC
	Size    int64     // bytes of the disk, whole blocks
	Keyed   bool      // hashes are keyed, because the store is encrypted
	Packs   []Pack    // by key; each has a chunk
	Chunks  []Chunk   // by pack and offset; each has a run
	Runs    []Run     // by start, as long as they can be; all else is zero
}

// Pack is an object that holds chunks.
type Pack struct {
	Key  string
	Size int64 // bytes
}

// Chunk is blocks that are stored together, as one zstd frame.
type Chunk struct {
	Sum    Hash
	Pack   int   // index in Packs
	Offset int64 // bytes in the pack
	Stored int64 // bytes in the pack
	Blocks int64 // plain
}

// Run is blocks side by side on the disk and in a chunk.
type Run struct {
	Start int64 // block on the disk
	Count int64 // blocks
	Chunk int   // index in Chunks
	From  int64 // block in the chunk
}

// End is the block after the run.
func (r Run) End() int64 { return r.Start + r.Count }

// Joins says whether next goes on where r ends, on the disk and in the chunk.
func (r Run) Joins(next Run) bool {
	return r.End() == next.Start && r.Chunk == next.Chunk && r.From+r.Count == next.From
}

// Checkpoint is m without its chunks.
func (m *Manifest) Checkpoint() Checkpoint {
	c := Checkpoint{Ref: m.Ref, Parent: m.Parent, Content: m.Content(), Size: m.Size, Created: m.Created}
	for _, r := range m.Runs {
		c.Stats.Used += r.Count * Block
	}
	for _, p := range m.Packs {
		c.Stats.Stored += p.Size
		if owner, _, err := RefOf(p.Key, PackPrefix); err == nil && owner == m.Ref {
			c.Stats.Added += p.Size
		}
	}
	return c
}

// Validate reports the first thing that makes m not a manifest in its one form.
func (m *Manifest) Validate() error {
	if err := m.Ref.Validate(); err != nil {
		return err
	}
	if !m.Parent.IsZero() {
		if err := m.Parent.Validate(); err != nil || m.Parent == m.Ref {
			return fmt.Errorf("%w: parent %.140q", ErrInvalid, m.Parent.String())
		}
	}
	if m.Size <= 0 || m.Size%Block != 0 || m.Size > MaxDisk {
		return fmt.Errorf("%w: disk of %d bytes", ErrInvalid, m.Size)
	}
	if m.Created.Unix() < 0 || !m.Created.Equal(m.Created.Truncate(time.Second)) {
		return fmt.Errorf("%w: created %v", ErrInvalid, m.Created)
	}
	if len(m.Runs) == 0 {
		return ErrEmpty
	}
	if err := m.checkPacks(); err != nil {
		return err
	}
	if err := m.checkChunks(); err != nil {
		return err
	}
	return m.checkRuns()
}

func (m *Manifest) checkPacks() error {
	for i, p := range m.Packs {
		r, name, err := RefOf(p.Key, PackPrefix)
		if err != nil {
			return err
		}
		number, sum, _ := strings.Cut(name, "-")
		if len(number) != 5 || len(sum) != 64 || strings.Trim(number+sum, "0123456789abcdef") != "" ||
			p.Size <= 0 || i > 0 && m.Packs[i-1].Key >= p.Key {
			return fmt.Errorf("%w: pack %d of %s", ErrInvalid, i, r)
		}
	}
	return nil
}

func (m *Manifest) checkChunks() error {
	pack, end := -1, int64(0)
	for i, c := range m.Chunks {
		if c.Pack != pack {
			if c.Pack != pack+1 || c.Pack >= len(m.Packs) {
				return fmt.Errorf("%w: chunk %d in pack %d after %d", ErrInvalid, i, c.Pack, pack)
			}
			pack, end = c.Pack, 0
		}
		size := m.Packs[pack].Size
		if c.Offset < end || c.Stored <= 0 || c.Stored > 2*MaxChunk || c.Offset > size-c.Stored || c.Blocks <= 0 || c.Blocks > MaxChunk/Block {
			return fmt.Errorf("%w: chunk %d: %d blocks, %d bytes at %d of %d", ErrInvalid, i, c.Blocks, c.Stored, c.Offset, size)
		}
		end = c.Offset + c.Stored
	}
	if pack != len(m.Packs)-1 {
		return fmt.Errorf("%w: pack %d has no chunk", ErrInvalid, pack+1)
	}
	return nil
}

func (m *Manifest) checkRuns() error {
	used := make([]bool, len(m.Chunks))
	end := int64(0)
	for i, r := range m.Runs {
		if r.Chunk < 0 || r.Chunk >= len(m.Chunks) || r.Start < end || r.Count <= 0 || r.Count > m.Size/Block-r.Start ||
			r.From < 0 || r.Count > m.Chunks[r.Chunk].Blocks-r.From || i > 0 && m.Runs[i-1].Joins(r) {
			return fmt.Errorf("%w: run %d: %+v", ErrInvalid, i, r)
		}
		end, used[r.Chunk] = r.End(), true
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("%w: chunk %d has no run", ErrInvalid, i)
	}
	return nil
}
