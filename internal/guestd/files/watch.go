package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// maxWatched bounds the directories of one recursive watch.
const maxWatched = 16384

// watch sends changes until the caller closes the stream or the watched path
// itself is removed. While the caller does not read, the kernel queues events;
// when its queue is full it drops them, and the caller is told "overflow".
func (s *Service) watch(ctx context.Context, c *mux.Call, p guest.WatchParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	fw, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	defer func() { _ = fw.Close() }() // it holds nothing to lose
	w := &watcher{fw: fw, u: u, top: path, recursive: p.Recursive, most: maxWatched, enc: json.NewEncoder(c.Streams[0])}
	if err := w.add(path, false); err != nil {
		return nil, err
	}
	if err := c.Reply(nil); err != nil {
		return nil, err
	}
	return nil, w.run(ctx)
}

type watcher struct {
	fw        *fsnotify.Watcher
	u         account.User
	top       string
	recursive bool
	most      int // directories at one time
	watched   int // at least as many as there are; removed ones are counted out when it matters
	enc       *json.Encoder
}

func (w *watcher) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err, ok := <-w.fw.Errors:
			if !ok {
				return nil
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch %s: %w", w.top, err)
			}
			if err := w.enc.Encode(guest.FileChange{Op: "overflow", Path: w.top}); err != nil {
				return err
			}
		case ev, ok := <-w.fw.Events:
			if !ok {
				return nil
			}
			over, err := w.tell(ev)
			if over || err != nil {
				return err
			}
		}
	}
}

func (w *watcher) tell(ev fsnotify.Event) (over bool, err error) {
	for _, bit := range []struct {
		op   fsnotify.Op
		name string
	}{
		{fsnotify.Create, "create"},
		{fsnotify.Write, "write"},
		{fsnotify.Chmod, "chmod"},
		{fsnotify.Rename, "rename"},
		{fsnotify.Remove, "remove"},
	} {
		if !ev.Has(bit.op) {
			continue
		}
		if err := w.enc.Encode(guest.FileChange{Op: bit.name, Path: ev.Name}); err != nil {
			return false, err
		}
	}
	if w.recursive && ev.Has(fsnotify.Create) {
		if err := w.add(ev.Name, true); err != nil {
			return false, err
		}
	}
	return ev.Name == w.top && (ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)), nil
}

// add watches path, and with recursion the directories below it. Entries of a
// directory that appeared just now are told as created: some may have come
// before the watch did, so one can be told twice.
func (w *watcher) add(path string, appeared bool) error {
	var found []string
	err := w.u.Do(func() error {
		if !w.recursive {
			return w.fw.Add(path)
		}
		return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err == nil && p != path && appeared {
				found = append(found, p)
			}
			if err == nil && (d.IsDir() || p == w.top) {
				err = w.addDir(p)
			}
			if p != w.top && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
				return fs.SkipDir
			}
			return err
		})
	})
	if errors.Is(err, syscall.ENOSPC) {
		return &guest.Error{Code: guest.CodeBusy, Message: "the guest's limit of watches (fs.inotify.max_user_watches) is reached"}
	}
	if err != nil {
		return err
	}
	for _, p := range found {
		if err := w.enc.Encode(guest.FileChange{Op: "create", Path: p}); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) addDir(path string) error {
	if w.watched >= w.most {
		w.watched = len(w.fw.WatchList())
	}
	if w.watched >= w.most {
		return &guest.Error{Code: guest.CodeBusy, Message: fmt.Sprintf("%s has more than %d directories; watch a part of it", w.top, w.most)}
	}
	if err := w.fw.Add(path); err != nil {
		return &os.PathError{Op: "watch", Path: path, Err: err}
	}
	w.watched++
	return nil
}
