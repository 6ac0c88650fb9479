// Package claim settles, between somebody who needs something that lies in the blob
// store and a sweep that drops it, whether it is still to be had. The rule is that of
// package workspace: each makes its claim visible first and looks for the other's
// afterwards, so that at least one of them sees the other. A thing is a name with all
// objects below it, and no name is used again. Who makes one holds it without a break
// from before its first object until its use is recorded; then no sweep ever puts a
// tomb on it while that record stands.
package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Life is how long a hold lasts that its holder does not release.
const Life = 24 * time.Hour

// Where claims lie, below a space's root.
const (
	holds = "holds/" // + name/holder.until
	tombs = "tombs/" // + name/sweep
)

// ErrDropped says that a sweep has dropped the thing, or is about to. Nothing may be built on it.
var ErrDropped = errors.New("it has been removed from the store")

// Space is a part of the blob store whose things are claimed alike.
type Space struct {
	Objects workspace.Objects
	// Root ends with a slash.
	Root string
}

// Hold keeps sweeps from a thing for Life from now. Again, it lasts longer. It binds
// those alone that begin to look after it: ask Dropped then.
func (s Space) Hold(ctx context.Context, name, holder string) error {
	key := s.Root + holds + name + "/" + holder + "." + strconv.FormatInt(time.Now().Add(Life).Unix(), 10)
	if err := workspace.Mark(ctx, s.Objects, key); err != nil {
		return fmt.Errorf("hold %s: %w", name, err)
	}
	return nil
}

// Release ends what Hold has made. Idempotent.
func (s Space) Release(ctx context.Context, name, holder string) error {
	err := workspace.All(ctx, s.Objects, s.Root+holds+name+"/"+holder+".", func(o workspace.Info) error {
		return s.Objects.Delete(ctx, o.Key)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", name, err)
	}
	return nil
}

// Dropped is ErrDropped when a sweep has put a tomb on a thing.
func (s Space) Dropped(ctx context.Context, name string) error {
	found, err := s.Objects.List(ctx, s.Root+tombs+name+"/", "", 1)
	if err == nil && len(found) > 0 {
		err = ErrDropped
	}
	if err != nil {
		return fmt.Errorf("look for tombs of %s: %w", name, err)
	}
	return nil
}
