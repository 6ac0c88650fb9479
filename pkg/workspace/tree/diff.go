package tree

import (
	"errors"
	"io"
)

// What may differ between two entries of one path.
const (
	FieldKind       = "kind"
	FieldContent    = "content"
	FieldLink       = "link"
	FieldDevice     = "device"
	FieldMode       = "mode"
	FieldOwner      = "owner"
	FieldTime       = "time"
	FieldAttributes = "attributes"
)

// Change is a path that is not the same in both.
type Change struct {
	Before, After *Entry   // nil: it is not there; not both
	Fields        []string // that differ, when it is in both
}

// Source gives entries in the order of Compare, and io.EOF behind the last.
type Source interface{ Next() (Entry, error) }

// Diff calls each for every path that differs, in the order of Compare, until it
// fails. Both are read as they come: memory does not grow with their number.
func Diff(before, after Source, each func(Change) error) error {
	a, err := next(before)
	if err != nil {
		return err
	}
	b, err := next(after)
	if err != nil {
		return err
	}
	for a != nil || b != nil {
		c := pair(a, b)
		if c.Before == nil || c.After == nil || len(c.Fields) > 0 {
			if err := each(c); err != nil {
				return err
			}
		}
		if c.Before != nil {
			if a, err = next(before); err != nil {
				return err
			}
		}
		if c.After != nil {
			if b, err = next(after); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is what there is of the path that comes first; nil is behind all paths.
func pair(a, b *Entry) Change {
	switch {
	case b == nil:
		return Change{Before: a}
	case a == nil:
		return Change{After: b}
	}
	switch order := Compare(a.Path, b.Path); {
	case order < 0:
		return Change{Before: a}
	case order > 0:
		return Change{After: b}
	}
	return Change{Before: a, After: b, Fields: fields(a, b)}
}

func next(s Source) (*Entry, error) {
	e, err := s.Next()
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // the end
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

func fields(a, b *Entry) []string {
	var all []string
	add := func(differs bool, field string) {
		if differs {
			all = append(all, field)
		}
	}
	add(a.Kind != b.Kind, FieldKind)
	same := a.Kind == b.Kind
	add(same && (a.Content != b.Content || a.Size != b.Size), FieldContent)
	add(same && a.Link != b.Link, FieldLink)
	add(same && a.Device != b.Device, FieldDevice)
	add(a.Mode != b.Mode, FieldMode)
	add(a.UID != b.UID || a.GID != b.GID, FieldOwner)
	add(!a.Time.Equal(b.Time), FieldTime)
	add(a.Attributes != b.Attributes, FieldAttributes)
	return all
}
