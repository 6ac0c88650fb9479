package ticket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
)

// fileName is where a host keeps the tickets of people, below its data directory.
const fileName = "tickets.json"

// kept is one ticket, or one browser of it, in the file. Secrets are not in it.
type kept struct {
	Hash []byte `json:"hash"` // of the secret
	Grant
}

// Keep reads the tickets of people that an earlier run of the host has left in a
// directory, and writes there those to come: who watches goes on watching after a
// restart. Tickets of ports are not kept.
func (b *Book) Keep(dir string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file = filepath.Join(dir, fileName)
	raw, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []kept
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return fmt.Errorf("read tickets (the file may be removed; people need new links then): %w", err)
	}
	all := map[string]Grant{} // a ticket and its browsers end together
	for _, k := range list {
		if len(k.Hash) != sha256.Size || !b.now().Before(k.Expires) {
			continue
		}
		g, first := k.Grant, all[k.ID]
		if g.ended, g.end = first.ended, first.end; g.ended == nil {
			g.ended, g.end = context.WithCancel(context.Background())
			all[g.ID] = g
		}
		b.grants[[sha256.Size]byte(k.Hash)] = g
	}
	return nil
}

// save writes what is kept. b.mu is held.
func (b *Book) save() error {
	if b.file == "" {
		return nil
	}
	list := []kept{}
	for hash, g := range b.grants {
		if g.Role != "" && b.now().Before(g.Expires) {
			list = append(list, kept{Hash: hash[:], Grant: g})
		}
	}
	raw, err := json.Marshal(list)
	if err == nil {
		err = atomicfile.Write(b.file, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write tickets: %w", err)
	}
	return nil
}

// saveLess is save after something was taken away. What cannot be written must not
// come back: no file is better than an old one.
func (b *Book) saveLess() {
	if err := b.save(); err != nil {
		_ = os.Remove(b.file) // on a disk that takes no writes nothing more can be done
	}
}
