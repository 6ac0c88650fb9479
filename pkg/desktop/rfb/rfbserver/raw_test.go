package rfbserver_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/rfb/rfbserver"
)

// raw is a client that speaks by hand, with raw pixels.
type raw struct {
	t    *testing.T
	conn net.Conn
	size image.Point
}

func dial(t *testing.T, cfg rfbserver.Config, encodings ...int32) *raw {
	t.Helper()
	conn, err := serve(t, cfg)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, conn: conn}
	c.read(12)
	c.write([]byte("RFB 003.008\n"))
	if got := c.read(2); !bytes.Equal(got, []byte{1, 1}) {
		t.Fatalf("security types %v", got)
	}
	c.write([]byte{1})
	c.read(4)
	c.write([]byte{1})
	init := c.read(24)
	c.read(int(binary.BigEndian.Uint32(init[20:])))
	c.size = image.Pt(int(binary.BigEndian.Uint16(init)), int(binary.BigEndian.Uint16(init[2:])))
	if len(encodings) > 0 {
		m := binary.BigEndian.AppendUint16([]byte{2, 0}, uint16(len(encodings)))
		for _, e := range encodings {
			m = binary.BigEndian.AppendUint32(m, uint32(e))
		}
		c.write(m)
	}
	return c
}

func (c *raw) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *raw) read(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *raw) ask(incremental byte) {
	c.t.Helper()
	m := []byte{3, incremental, 0, 0, 0, 0}
	m = binary.BigEndian.AppendUint16(m, uint16(c.size.X))
	c.write(binary.BigEndian.AppendUint16(m, uint16(c.size.Y)))
}

// box is one rectangle of an update.
type box struct {
	rect image.Rectangle
	enc  int32
	data []byte
}

// update reads an update.
func (c *raw) update() []box {
	c.t.Helper()
	head := c.read(4)
	if head[0] != 0 {
		c.t.Fatalf("message %d", head[0])
	}
	list := make([]box, binary.BigEndian.Uint16(head[2:]))
	for i := range list {
		b := c.read(12)
		at := func(j int) int { return int(binary.BigEndian.Uint16(b[j:])) }
		x := box{rect: image.Rect(at(0), at(2), at(0)+at(4), at(2)+at(6)), enc: int32(binary.BigEndian.Uint32(b[8:]))}
		w, h := x.rect.Dx(), x.rect.Dy()
		switch x.enc {
		case 0:
			x.data = c.read(4 * w * h)
		case -239:
			x.data = c.read(4*w*h + (w+7)/8*h)
		case -308:
			x.data = c.read(4 + 16)
		case -223:
			c.size = x.rect.Size()
		case -258:
		default:
			c.t.Fatalf("encoding %d", x.enc)
		}
		list[i] = x
	}
	return list
}

func kinds(list []box) []int32 {
	var out []int32
	for _, b := range list {
		if !slices.Contains(out, b.enc) {
			out = append(out, b.enc)
		}
	}
	return out
}
