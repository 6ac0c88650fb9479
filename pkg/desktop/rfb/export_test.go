package rfb

import (
	"bufio"
	"bytes"
	"errors"
	"image"
	"io"
)

// Decode applies server messages to a screen of the given size until they end.
func Decode(w, h int, messages []byte) (*image.RGBA, *image.RGBA, error) {
	d := &decoder{r: bufio.NewReader(bytes.NewReader(messages)), limits: limits{side: 16384, pixels: 1 << 20}}
	d.scr.claim = func(img *image.RGBA) *image.RGBA { return img }
	d.scr.resize(w, h)
	for {
		if _, _, err := d.message(); errors.Is(err, io.EOF) {
			return d.scr.img, d.cursor.img, nil
		} else if err != nil {
			return d.scr.img, d.cursor.img, err
		}
	}
}

// Handshake greets a server whose bytes are given.
func Handshake(server []byte) error {
	_, err := handshake(struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(server), io.Discard}, limits{side: 16384, pixels: 1 << 20})
	return err
}
