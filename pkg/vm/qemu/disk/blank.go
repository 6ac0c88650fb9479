package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/pkg/vm"
)

// keptBlanks is how many formatted disks are kept to be copied, each of some MiB.
const keptBlanks = 8

// Blanks makes disks with an empty file system by copying: the programs that make
// one take fifty times as long. The first of its kind is made and kept, for the
// life of this process; what an earlier one has left is made anew. All of a kind
// have the same file system, down to its UUID. Safe for concurrent use.
type Blanks struct {
	Tools

	Dir string // of the copies; it is Blanks' alone, and made when it is needed

	turn sync.Mutex // held while one is made, and while the list changes
	have []blank    // guarded by turn; the last used is last
}

// blank is a kind of disks and its copy.
type blank struct {
	mib   int64
	label string
	file  *os.File // has no name
	bytes int64
}

// Create is Tools.Create.
func (b *Blanks) Create(ctx context.Context, d vm.Disk, path string) error {
	if d.Base != "" || d.Source != "" || d.Label == "" {
		return b.Tools.Create(ctx, d, path)
	}
	from, err := b.get(ctx, d)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make disk: %w", noSpace(err, ""))
	}
	_, err = io.Copy(to, io.NewSectionReader(from.file, 0, from.bytes))
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("make disk: copy one that is formatted: %w", noSpace(err, ""))
	}
	return nil
}

// get is the one of d's kind that is copied. While one is made all others wait.
func (b *Blanks) get(ctx context.Context, d vm.Disk) (blank, error) {
	b.turn.Lock()
	defer b.turn.Unlock()
	i := slices.IndexFunc(b.have, func(h blank) bool { return h.mib == d.SizeMiB && h.label == d.Label })
	if i < 0 {
		made, err := b.make(ctx, d)
		if err != nil {
			return blank{}, err
		}
		b.have, i = append(b.have, made), len(b.have)
	}
	now := b.have[i]
	b.have = append(slices.Delete(b.have, i, i+1), now)
	if n := len(b.have) - keptBlanks; n > 0 {
		b.have = slices.Delete(b.have, 0, n) // a reader may still have it: it is closed when none has
	}
	return now, nil
}

// make makes one. It has no name any more: nobody else finds it, and it goes with
// the process.
func (b *Blanks) make(ctx context.Context, d vm.Disk) (made blank, err error) {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return made, fmt.Errorf("make room for a formatted disk: %w", noSpace(err, ""))
	}
	path := filepath.Join(b.Dir, "blank.qcow2")
	left := []string{path, path + ".raw"} // of a process that was killed in the midst of it
	if err := removeAll(left); err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, removeAll(left)) }()
	if err := b.Tools.Create(ctx, d, path); err != nil {
		return made, err
	}
	f, err := os.Open(path)
	if err != nil {
		return made, err
	}
	info, err := f.Stat()
	if err != nil {
		return made, err
	}
	return blank{d.SizeMiB, d.Label, f, info.Size()}, nil
}

func removeAll(files []string) error {
	var errs []error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
