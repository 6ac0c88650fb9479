package keymap

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed says that a map's bytes do not add up.
var ErrMalformed = errors.New("malformed keyboard map")

// Offsets in the reply of XkbGetMap (section 13.2 of the protocol, "GetMap").
const (
	replyHeader  = 40
	offMinCode   = 10
	offMaxCode   = 11
	offPresent   = 12
	offNTypes    = 15
	offFirstSym  = 17
	offNSyms     = 20
	offTotalMods = 33

	partTypes   = 1
	partSyms    = 2
	partModMap  = 4
	typeHeader  = 8
	typeEntry   = 8
	typeKeep    = 4
	symsHeader  = 8
	maxGroups   = 4
	groupsMask  = 0x0f
	rangeMask   = 0xc0
	rangeClamp  = 0x40
	rangeTarget = 0x80
)

// Parse decodes a reply of XkbGetMap that holds key types, key symbols and the
// modifier map, in little-endian byte order. It refuses bytes that do not add
// up with ErrMalformed.
func Parse(reply []byte) (*Map, error) {
	if len(reply) < replyHeader {
		return nil, ErrMalformed
	}
	present := binary.LittleEndian.Uint16(reply[offPresent:])
	if present&^(partTypes|partSyms|partModMap) != 0 || present&partSyms == 0 || present&partTypes == 0 {
		return nil, ErrMalformed
	}
	m := &Map{Min: reply[offMinCode], Max: reply[offMaxCode]}
	if m.Min > m.Max {
		return nil, ErrMalformed
	}
	rd := &reader{buf: reply[replyHeader:]}
	for range int(reply[offNTypes]) {
		m.types = append(m.types, rd.keyType())
	}
	first := int(reply[offFirstSym])
	for i := range int(reply[offNSyms]) {
		if first+i > 255 {
			return nil, ErrMalformed
		}
		m.keys[first+i] = rd.key(len(m.types))
	}
	if present&partModMap != 0 {
		for range int(reply[offTotalMods]) {
			e := rd.take(2)
			m.mods[e[0]] |= e[1]
		}
	}
	if rd.bad {
		return nil, ErrMalformed
	}
	return m, nil
}

// reader takes bytes from buf; once it comes short it yields zeros and is bad.
type reader struct {
	buf []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.buf) < n {
		r.bad = true
		return make([]byte, min(n, typeHeader))
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) keyType() keyType {
	h := r.take(typeHeader)
	t := keyType{mask: h[0]}
	n, keep := int(h[5]), h[6] != 0
	for range n {
		e := r.take(typeEntry)
		if e[0] != 0 {
			t.entries = append(t.entries, levelMods{level: e[2], mods: e[1]})
		}
	}
	if keep {
		for range n {
			r.take(typeKeep)
		}
	}
	return t
}

func (r *reader) key(types int) key {
	h := r.take(symsHeader)
	k := key{info: h[4], width: int(h[5])}
	n := int(binary.LittleEndian.Uint16(h[6:]))
	groups := int(k.info & groupsMask)
	if groups > maxGroups || n != groups*k.width {
		r.bad = true
	}
	for g := range min(groups, maxGroups) {
		k.types[g] = int(h[g])
		if k.types[g] >= types {
			r.bad = true
		}
	}
	for range n {
		if r.bad {
			break
		}
		k.syms = append(k.syms, Keysym(binary.LittleEndian.Uint32(r.take(4))))
	}
	return k
}
