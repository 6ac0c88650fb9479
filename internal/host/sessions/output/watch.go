package output

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// still is how long a file must not have changed before it is stored.
	still = 2 * time.Second
	// look is the pause between two looks for such files.
	look = time.Second
	// most is the longest pause between two lists of all files: not every change is
	// heard of, such as one before the guest watches, or of a file system that does
	// not tell.
	most = time.Minute
)

// watch stores files while a harness still runs. It only saves time: it fails
// without consequence.
type watch struct {
	o      *Outputs
	p      *place
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu    sync.Mutex
	dirty map[string]time.Time // guarded by mu; by logical path; when it changed last
	seen  map[string]found     // guarded by mu; as it was listed last
}

// begin watches until end is called, whatever becomes of ctx.
func (o *Outputs) begin(ctx context.Context, p *place) *watch {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{o: o, p: p, cancel: cancel, dirty: map[string]time.Time{}, seen: map[string]found{}}
	w.wait.Go(func() { w.listen(ctx) })
	w.wait.Go(func() {
		for p := look; sleep.For(ctx, p) == nil; p = min(2*p, most) {
			w.all(ctx)
		}
	})
	w.wait.Go(func() { w.store(ctx) })
	return w
}

func (w *watch) end() {
	w.cancel()
	w.wait.Wait()
}

// listen hears of changes, again when the link was lost.
func (w *watch) listen(ctx context.Context) {
	watcher, ok := w.p.files.(live.Watcher)
	if !ok {
		return
	}
	for ctx.Err() == nil {
		err := watcher.Watch(ctx, guest.WatchParams{PathParams: guest.PathParams{Path: w.p.mount}, Recursive: true}, func(c guest.FileChange) error {
			w.note(ctx, c)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			w.o.cfg.Logger.Debug("outputs not watched", "err", err)
		}
		_ = sleep.For(ctx, look) // the loop looks at ctx
	}
}

// all notes every file that is not as it was.
func (w *watch) all(ctx context.Context) {
	list, err := w.p.list(ctx)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range list {
		if w.seen[f.logical] != f {
			w.seen[f.logical] = f
			w.dirty[f.logical] = time.Now()
		}
	}
}

func (w *watch) note(ctx context.Context, c guest.FileChange) {
	if c.Op == "overflow" {
		w.all(ctx)
		return
	}
	logical, below := strings.CutPrefix(c.Path, strings.TrimSuffix(w.p.mount, "/")+"/")
	if !below {
		return
	}
	w.touch(logical)
}

func (w *watch) touch(logical string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty[logical] = time.Now()
}

// store stores what has come to rest.
func (w *watch) store(ctx context.Context) {
	for sleep.For(ctx, look) == nil {
		for _, logical := range w.rested() {
			if err := w.one(ctx, logical); err != nil && ctx.Err() == nil {
				w.o.cfg.Logger.Debug("output not stored ahead yet", "path", logical, "err", err)
				w.touch(logical)
			}
		}
	}
}

func (w *watch) rested() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for logical, at := range w.dirty {
		if time.Since(at) >= still {
			list = append(list, logical)
			delete(w.dirty, logical)
		}
	}
	return list
}

func (w *watch) one(ctx context.Context, logical string) error {
	info, err := w.p.files.Stat(ctx, guest.PathParams{Path: path.Join(w.p.mount, logical)})
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) || err == nil && info.Type != guest.TypeFile {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := w.p.read(ctx, logical, info.Size, nil)
	if err != nil {
		return err
	}
	set, err := w.o.current(ctx, w.p)
	if err != nil {
		return err
	}
	return w.o.take(ctx, w.p, set, e)
}
