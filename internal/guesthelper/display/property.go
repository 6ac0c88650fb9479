package display

import (
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// maxProperty bounds a property read at once, in units of 4 bytes.
const maxProperty = 1 << 22

// Property reads a property of w of any type; empty when it is not set.
func (d *Display) Property(w xproto.Window, name string) ([]byte, error) {
	a, err := d.Atom(name)
	if err != nil {
		return nil, err
	}
	r, err := xproto.GetProperty(d.Conn, false, w, a, xproto.GetPropertyTypeAny, 0, maxProperty).Reply()
	if err != nil {
		return nil, Wrap(err, "read property "+name)
	}
	return r.Value, nil
}

// Cards reads a property made of 32-bit values: cardinals, windows or atoms.
func (d *Display) Cards(w xproto.Window, name string) ([]uint32, error) {
	raw, err := d.Property(w, name)
	if err != nil {
		return nil, err
	}
	return Cards(raw), nil
}

// Cards splits raw, in the server's byte order, into 32-bit values; a rest
// below four bytes is dropped.
func Cards(raw []byte) []uint32 {
	vs := make([]uint32, 0, len(raw)/4)
	for len(raw) >= 4 {
		vs = append(vs, xgb.Get32(raw))
		raw = raw[4:]
	}
	return vs
}

// AtomNames reads a property that is a list of atoms. Atoms without a name are
// left out.
func (d *Display) AtomNames(w xproto.Window, name string) ([]string, error) {
	vs, err := d.Cards(w, name)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(vs))
	for _, v := range vs {
		if n, err := d.AtomName(xproto.Atom(v)); err == nil {
			names = append(names, n)
		}
	}
	return names, nil
}

// Text reads a property as text: by its type, or UTF-8 where it is, else
// Latin-1.
func (d *Display) Text(w xproto.Window, name string) (string, error) {
	a, err := d.Atom(name)
	if err != nil {
		return "", err
	}
	compound, err := d.Atom("COMPOUND_TEXT")
	if err != nil {
		return "", err
	}
	r, err := xproto.GetProperty(d.Conn, false, w, a, xproto.GetPropertyTypeAny, 0, maxProperty).Reply()
	if err != nil {
		return "", Wrap(err, "read property "+name)
	}
	if r.Type == compound {
		return CompoundText(r.Value), nil
	}
	return Text(r.Value), nil
}

// Text decodes a text property up to its first NUL: UTF-8 where it is valid,
// else Latin-1.
func Text(raw []byte) string {
	s, _, _ := strings.Cut(string(raw), "\x00")
	if strings.ToValidUTF8(s, "") == s {
		return s
	}
	rs := make([]rune, 0, len(s))
	for i := range len(s) {
		rs = append(rs, rune(s[i]))
	}
	return string(rs)
}

// Tell sends a client message to the window manager: about w, to the root
// window.
func (d *Display) Tell(w xproto.Window, kind string, data ...uint32) error {
	msg, err := d.Message(w, kind, data...)
	if err != nil {
		return err
	}
	const mask = xproto.EventMaskSubstructureNotify | xproto.EventMaskSubstructureRedirect
	err = xproto.SendEventChecked(d.Conn, false, d.Root, mask, string(msg.Bytes())).Check()
	return Wrap(err, "send "+kind)
}

// Message builds a client message of format 32 with up to five values.
func (d *Display) Message(w xproto.Window, kind string, data ...uint32) (xproto.ClientMessageEvent, error) {
	a, err := d.Atom(kind)
	if err != nil {
		return xproto.ClientMessageEvent{}, err
	}
	var five [5]uint32
	copy(five[:], data)
	return xproto.ClientMessageEvent{
		Format: 32, Window: w, Type: a,
		Data: xproto.ClientMessageDataUnionData32New(five[:]),
	}, nil
}
