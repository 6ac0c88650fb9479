package files

import (
	"context"
	"encoding/json"
	"io"

	"github.com/fsnotify/fsnotify"

	"github.com/deskfork/deskfork/internal/guestd/account"
)

// Watch watches path and what is below it, most directories at one time, and
// writes changes to w until ctx ends.
func Watch(ctx context.Context, path string, most int, w io.Writer) error {
	u, err := account.Lookup("")
	if err != nil {
		return err
	}
	fw, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = fw.Close() }() // it holds nothing to lose
	watch := &watcher{fw: fw, u: u, top: path, recursive: true, most: most, enc: json.NewEncoder(w)}
	if err := watch.add(path, false); err != nil {
		return err
	}
	return watch.run(ctx)
}
