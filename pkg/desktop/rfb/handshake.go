package rfb

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// greeting is what a server says of itself in ServerInit.
type greeting struct {
	width, height int
	name          string
}

// handshake speaks RFB 3.8 up to ServerInit, without authentication.
func handshake(rw io.ReadWriter, lim limits) (greeting, error) {
	var version [12]byte
	if _, err := io.ReadFull(rw, version[:]); err != nil {
		return greeting{}, fmt.Errorf("read version: %w", err)
	}
	var major, minor int
	if n, err := fmt.Sscanf(string(version[:]), "RFB %3d.%3d\n", &major, &minor); n != 2 || err != nil {
		return greeting{}, refuse("version", "%q is no RFB greeting", version)
	}
	if major < 3 || (major == 3 && minor < 8) {
		return greeting{}, refuse("version", "server speaks %d.%d; 3.8 is needed", major, minor)
	}
	if _, err := io.WriteString(rw, "RFB 003.008\n"); err != nil {
		return greeting{}, fmt.Errorf("write version: %w", err)
	}
	if err := authenticate(rw); err != nil {
		return greeting{}, err
	}
	const shared = 1
	if _, err := rw.Write([]byte{shared}); err != nil {
		return greeting{}, fmt.Errorf("write client init: %w", err)
	}
	return serverInit(rw, lim)
}

func authenticate(rw io.ReadWriter) error {
	n, err := readN(rw, 1)
	if err != nil {
		return fmt.Errorf("read security types: %w", err)
	}
	if n[0] == 0 {
		return refuse("security", "server refuses: %s", reason(rw))
	}
	types, err := readN(rw, int(n[0]))
	if err != nil {
		return fmt.Errorf("read security types: %w", err)
	}
	const none = 1
	if strings.IndexByte(string(types), none) < 0 {
		return refuse("security", "server wants authentication (types %v); only none is spoken", types)
	}
	if _, err := rw.Write([]byte{none}); err != nil {
		return fmt.Errorf("write security type: %w", err)
	}
	result, err := readN(rw, 4)
	if err != nil {
		return fmt.Errorf("read security result: %w", err)
	}
	if binary.BigEndian.Uint32(result) != 0 {
		return refuse("security", "server refuses: %s", reason(rw))
	}
	return nil
}

func serverInit(rw io.ReadWriter, lim limits) (greeting, error) {
	h, err := readN(rw, 24)
	if err != nil {
		return greeting{}, fmt.Errorf("read server init: %w", err)
	}
	g := greeting{width: int(binary.BigEndian.Uint16(h)), height: int(binary.BigEndian.Uint16(h[2:]))}
	if err := lim.check("server init", g.width, g.height); err != nil {
		return greeting{}, err
	}
	const most = 64 << 10
	length := binary.BigEndian.Uint32(h[20:])
	if length > most {
		return greeting{}, refuse("server init", "name of %d bytes; at most %d", length, most)
	}
	name, err := readN(rw, int(length))
	if err != nil {
		return greeting{}, fmt.Errorf("read server name: %w", err)
	}
	g.name = string(name)
	return g, nil
}

// reason reads why a server refuses.
func reason(r io.Reader) string {
	h, err := readN(r, 4)
	if err != nil {
		return "it does not say why"
	}
	text, err := readN(r, int(min(binary.BigEndian.Uint32(h), 1024)))
	if err != nil {
		return "it does not say why"
	}
	return strings.ToValidUTF8(string(text), "?")
}

func readN(r io.Reader, n int) ([]byte, error) {
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	return p, err
}
