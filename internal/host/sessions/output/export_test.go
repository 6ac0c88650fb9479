package output

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"github.com/deskfork/deskfork/pkg/session"
)

// Leave is a run without a machine: it stores files, publishes what they are, and lets
// go.
func Leave(ctx context.Context, s Store, t session.Tenure, files map[string]string, publish func(session.Candidate) error) (session.Candidate, error) {
	o, p := New(Config{Store: s}), newPlace(session.OutputsCollect, "/")
	set, err := o.renew(ctx, p)
	if err != nil {
		return session.Candidate{}, err
	}
	var entries []session.OutputEntry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		e, err := store(ctx, s, set, name, files[name])
		if err != nil {
			return session.Candidate{}, err
		}
		p.stored[blob{set, e.ContentHash}], p.named[blob{set, e.ContentHash}] = true, true
		entries = append(entries, e)
	}
	c, err := s.manifest(ctx, set, t, entries)
	if err == nil {
		err = publish(c)
	}
	return c, errors.Join(err, o.forsake(ctx, p))
}

func store(ctx context.Context, s Store, set, name, text string) (session.OutputEntry, error) {
	to, err := s.spool()
	if err != nil {
		return session.OutputEntry{}, err
	}
	defer to.close()
	if _, err := to.file.WriteString(text); err != nil {
		return session.OutputEntry{}, err
	}
	e := session.OutputEntry{LogicalPath: name, ContentHash: hashOf(text), Size: int64(len(text))}
	return e, s.put(ctx, set, e.ContentHash, to, e.Size)
}

// Sets are the sets that one run has, before and after a pause.
func Sets(ctx context.Context, s Store, pause func()) (before, after string, err error) {
	o, p := New(Config{Store: s}), newPlace(session.OutputsCollect, "/")
	before, err = o.current(ctx, p)
	if err == nil {
		pause()
		after, err = o.current(ctx, p)
	}
	return before, after, errors.Join(err, o.forsake(ctx, p))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return prefix + hex.EncodeToString(sum[:])
}
