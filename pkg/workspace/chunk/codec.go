package chunk

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Codec turns pieces into what is stored and back. It is safe for concurrent
// use.
type Codec struct {
	key []byte
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec makes a codec. With a key hashes are HMAC-SHA-256: they tell nothing
// to somebody who has the store and guesses what is in it.
func NewCodec(key []byte) (*Codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(workspace.MaxChunk))
	if err != nil {
		return nil, fmt.Errorf("start compression: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(workspace.MaxChunk), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("start compression: %w", err)
	}
	return &Codec{key: key, enc: enc, dec: dec}, nil
}

// Keyed says whether hashes are keyed.
func (c *Codec) Keyed() bool { return len(c.key) > 0 }

// Sum is the hash of plain bytes.
func (c *Codec) Sum(data []byte) workspace.Hash {
	if !c.Keyed() {
		return sha256.Sum256(data)
	}
	h := hmac.New(sha256.New, c.key)
	h.Write(data)
	return workspace.Hash(h.Sum(nil))
}

// Pack compresses a chunk.
func (c *Codec) Pack(data []byte) []byte {
	return c.enc.EncodeAll(data, make([]byte, 0, len(data)/2))
}

// Open gives the plain bytes of a chunk if they are what was stored.
func (c *Codec) Open(stored []byte, want workspace.Chunk) ([]byte, error) {
	size := int(want.Blocks) * workspace.Block
	data, err := c.dec.DecodeAll(stored, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if len(data) != size {
		return nil, fmt.Errorf("%d bytes, want %d", len(data), size)
	}
	if c.Sum(data) != want.Sum {
		return nil, errors.New("other bytes than those that were stored")
	}
	return data, nil
}
