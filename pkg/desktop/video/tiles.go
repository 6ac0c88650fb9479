package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"slices"
)

// Quality of tiles, of 100: while the screen changes, and when it is still.
const (
	tileQuality = 70
	fineQuality = 92
)

// tileSide is the grid that tiles are cut on, in pixels of the picture.
const tileSide = 64

// tileHead is how long a tile is without its picture, in bytes.
const tileHead = 8

// Tile is a part of a picture of Tiles: 4 numbers of 16 bits, big endian, then a
// JPEG. A chunk is tiles one after the other: x, y, and in 32 bits the length of
// the JPEG, whose size is in itself.
type Tile struct {
	At   image.Point // of its top left corner
	JPEG []byte
}

// ParseTiles reads a chunk of Tiles.
func ParseTiles(chunk []byte) ([]Tile, error) {
	var tiles []Tile
	for len(chunk) > 0 {
		if len(chunk) < tileHead {
			return nil, errors.New("read tiles: cut short")
		}
		at := image.Pt(int(binary.BigEndian.Uint16(chunk)), int(binary.BigEndian.Uint16(chunk[2:])))
		size := binary.BigEndian.Uint32(chunk[4:])
		chunk = chunk[tileHead:]
		if uint64(size) > uint64(len(chunk)) {
			return nil, errors.New("read tiles: cut short")
		}
		tiles = append(tiles, Tile{At: at, JPEG: chunk[:size]})
		chunk = chunk[size:]
	}
	return tiles, nil
}

// tiler encodes the squares of a grid that changed, neighbours in a row together.
type tiler struct {
	cfg   Config
	begun bool
}

// Encode implements Encoder.
func (t *tiler) Encode(p Picture) (Chunk, error) {
	if err := t.cfg.check(p); err != nil {
		return Chunk{}, err
	}
	size := t.cfg.size()
	c := Chunk{Codec: Tiles, Key: p.Key || !t.begun, Width: size.X, Height: size.Y}
	t.begun = true
	quality := tileQuality
	if len(p.Refine) > 0 {
		quality = fineQuality
	}
	areas := []image.Rectangle{{Max: size}}
	if !c.Key {
		areas = t.grid(append(slices.Clone(p.Changed), p.Refine...))
	}
	var out bytes.Buffer
	for _, r := range areas {
		start := out.Len()
		head := binary.BigEndian.AppendUint16(nil, uint16(r.Min.X))
		head = binary.BigEndian.AppendUint16(head, uint16(r.Min.Y))
		out.Write(append(head, 0, 0, 0, 0))
		if err := jpeg.Encode(&out, t.part(p.Image, r), &jpeg.Options{Quality: quality}); err != nil {
			return Chunk{}, fmt.Errorf("encode tile %v: %w", r, err)
		}
		binary.BigEndian.PutUint32(out.Bytes()[start+4:], uint32(out.Len()-start-tileHead))
	}
	c.Data = out.Bytes()
	return c, nil
}

// grid covers parts of the screen with tiles of the picture.
func (t *tiler) grid(parts []image.Rectangle) []image.Rectangle {
	size := t.cfg.size()
	cols, rows := (size.X+tileSide-1)/tileSide, (size.Y+tileSide-1)/tileSide
	marked := make([]bool, cols*rows)
	for _, r := range parts {
		r = r.Intersect(image.Rectangle{Max: t.cfg.Size})
		if r.Empty() {
			continue
		}
		side := tileSide * t.cfg.Shrink
		for y := r.Min.Y / side; y <= min((r.Max.Y-1)/side, rows-1); y++ {
			for x := r.Min.X / side; x <= min((r.Max.X-1)/side, cols-1); x++ {
				marked[y*cols+x] = true
			}
		}
	}
	var out []image.Rectangle
	for y := range rows {
		for x := 0; x < cols; x++ {
			first := x
			for x < cols && marked[y*cols+x] {
				x++
			}
			if x > first {
				r := image.Rect(first*tileSide, y*tileSide, x*tileSide, (y+1)*tileSide)
				out = append(out, r.Intersect(image.Rectangle{Max: size}))
			}
		}
	}
	return out
}

// part is the part r of the picture.
func (t *tiler) part(img *image.RGBA, r image.Rectangle) image.Image {
	if t.cfg.Shrink == 1 {
		return img.SubImage(r)
	}
	out := image.NewRGBA(image.Rectangle{Max: r.Size()})
	for y := range r.Dy() {
		a := img.Pix[img.PixOffset(2*r.Min.X, 2*(r.Min.Y+y)):]
		b := a[img.Stride:]
		row := out.Pix[y*out.Stride:][:4*r.Dx()]
		for i := range row {
			at := i/4*8 + i%4
			row[i] = byte((int(a[at]) + int(a[at+4]) + int(b[at]) + int(b[at+4]) + 2) / 4)
		}
	}
	return out
}

// SetBitrate implements Encoder: tiles cost what they cost.
func (t *tiler) SetBitrate(int) error { return nil }

// Close implements Encoder.
func (t *tiler) Close() {}
