// Package record remembers runs over the end of a daemon: a file each, written before
// a run is begun and whenever something counts. What a command is told besides its
// arguments, its environment and its input, is in none.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// ext is that of a record's file, whose name is the run's id.
const ext = ".json"

// Record is what is known of a run.
type Record struct {
	Run api.Run `json:"run"`
	// Before is the revision that was published when the run took its turn.
	Before int64 `json:"before,omitempty"`
	// Outputs and Keep are what was asked for.
	Outputs bool        `json:"outputs,omitempty"`
	Keep    api.RunKeep `json:"keep,omitempty"`
	// Output is what it has published.
	Output *session.Candidate `json:"output,omitempty"`
	// Key is the idempotency key that it was asked for under, with what was asked.
	Key string `json:"key,omitempty"`
}

// Book is a directory of records. It is for one process; safe for concurrent use of
// several runs.
type Book struct{ dir string }

// Open makes the directory at need.
func Open(dir string) (*Book, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make directory of runs: %w", err)
	}
	return &Book{dir: dir}, nil
}

// All reads every record. One that is damaged is told in err and left where it is;
// the others are given all the same.
func (b *Book) All() (all []Record, err error) {
	entries, derr := os.ReadDir(b.dir)
	if derr != nil {
		return nil, fmt.Errorf("list runs: %w", derr)
	}
	for _, e := range entries {
		id, ours := strings.CutSuffix(e.Name(), ext)
		if !ours {
			if strings.HasSuffix(e.Name(), atomicfile.Suffix) {
				err = errors.Join(err, os.Remove(filepath.Join(b.dir, e.Name())))
			}
			continue
		}
		r, rerr := b.read(id)
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		all = append(all, r)
	}
	return all, err
}

func (b *Book) read(id string) (Record, error) {
	text, err := os.ReadFile(b.path(id))
	if err != nil {
		return Record{}, fmt.Errorf("read run: %w", err)
	}
	r, err := Parse(text)
	if err == nil && r.Run.ID != id {
		err = fmt.Errorf("it is that of run %q", r.Run.ID)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%s is damaged, and its run not known; remove it: %w", b.path(id), err)
	}
	return r, nil
}

// Parse reads what Put wrote.
func Parse(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, err
	}
	if r.Run.ID == "" || r.Run.Workspace == "" || r.Run.State == "" || len(r.Run.Argv) == 0 {
		return Record{}, errors.New("id, workspace, state or command is missing")
	}
	if r.Output != nil {
		return r, r.Output.Validate()
	}
	return r, nil
}

// Put writes a record, in the place of the one before.
func (b *Book) Put(r Record) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(b.path(r.Run.ID), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note run %s: %w", r.Run.ID, err)
	}
	return nil
}

// Remove forgets a run. Idempotent.
func (b *Book) Remove(id string) error {
	if err := os.Remove(b.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget run: %w", err)
	}
	return nil
}

func (b *Book) path(id string) string { return filepath.Join(b.dir, id+ext) }
