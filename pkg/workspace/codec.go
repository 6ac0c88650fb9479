package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// A manifest is a line of text, numbers as unsigned varints and strings with
// their length before them, and SHA-256 of all that. The number in the line is
// the version; a change of meaning or form is a new one.
const manifestLine = "deskfork workspace manifest 1\n"

// Encode gives the one form of m. It does not check m.
func (m *Manifest) Encode() []byte {
	data := m.encode()
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// Content is the content hash of m's checkpoint.
func (m *Manifest) Content() string {
	sum := sha256.Sum256(m.encode())
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (m *Manifest) encode() []byte {
	e := encoder(manifestLine)
	for _, s := range []string{string(m.Workspace), string(m.Ref.Checkpoint), string(m.Parent.Workspace), string(m.Parent.Checkpoint)} {
		e.text(s)
	}
	e.number(m.Created.Unix(), m.Size, int64(bit(m.Keyed)), int64(len(m.Packs)))
	for _, p := range m.Packs {
		e.text(p.Key)
		e.number(p.Size)
	}
	e.number(int64(len(m.Chunks)))
	for _, c := range m.Chunks {
		e = append(e, c.Sum[:]...)
		e.number(int64(c.Pack), c.Offset, c.Stored, c.Blocks)
	}
	e.number(int64(len(m.Runs)))
	end := int64(0)
	for _, r := range m.Runs {
		e.number(r.Start-end, r.Count, int64(r.Chunk), r.From)
		end = r.End()
	}
	return e
}

// Decode reads what Encode wrote and nothing else. It is ErrCorrupt when bytes
// are missing or changed, ErrInvalid when they make no sense or have another
// form than the one.
func Decode(data []byte) (*Manifest, error) {
	if !bytes.HasPrefix(data, []byte(manifestLine)) {
		return nil, fmt.Errorf("%w: no manifest of version 1", ErrInvalid)
	}
	end := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:max(end, 0)]); end < len(manifestLine) || !bytes.Equal(sum[:], data[end:]) {
		return nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	d := decoder{rest: data[len(manifestLine):end]}
	m := d.manifest()
	if d.err == nil && len(d.rest) > 0 {
		d.err = errors.New("bytes behind the end")
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrInvalid, d.err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if !bytes.Equal(m.encode(), data[:end]) {
		return nil, fmt.Errorf("%w: manifest is not in its one form", ErrInvalid)
	}
	return m, nil
}

type encoder []byte

func (e *encoder) number(all ...int64) {
	for _, n := range all {
		*e = binary.AppendUvarint(*e, uint64(n))
	}
}

func (e *encoder) text(s string) {
	e.number(int64(len(s)))
	*e = append(*e, s...)
}

// decoder keeps its first error and gives zeros after it.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) manifest() *Manifest {
	m := &Manifest{}
	m.Workspace, m.Ref.Checkpoint = ID(d.text()), CheckpointID(d.text())
	m.Parent = Ref{ID(d.text()), CheckpointID(d.text())}
	m.Created = time.Unix(d.number(), 0).UTC()
	m.Size = d.number()
	m.Keyed = d.number() == 1
	for n := d.number(); n > 0 && d.err == nil; n-- {
		m.Packs = append(m.Packs, Pack{Key: d.text(), Size: d.number()})
	}
	for n := d.number(); n > 0 && d.err == nil; n-- {
		var c Chunk
		copy(c.Sum[:], d.bytes(int64(len(c.Sum))))
		c.Pack, c.Offset, c.Stored, c.Blocks = int(d.number()), d.number(), d.number(), d.number()
		m.Chunks = append(m.Chunks, c)
	}
	end := int64(0)
	for n := d.number(); n > 0 && d.err == nil; n-- {
		r := Run{Start: end + d.number(), Count: d.number(), Chunk: int(d.number()), From: d.number()}
		end = r.End()
		m.Runs = append(m.Runs, r)
	}
	return m
}

func (d *decoder) number() int64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > 1<<48 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[size:]
	return int64(n)
}

func (d *decoder) text() string { return string(d.bytes(d.number())) }

func (d *decoder) bytes(n int64) []byte {
	if n > int64(len(d.rest)) {
		d.fail("length")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("bad %s %d bytes before the end", what, len(d.rest))
	}
	d.rest = nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
