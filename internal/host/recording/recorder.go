package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/webm"
)

// Why a recording ends; see api.Recording.
const (
	reasonStopped = "stopped"
	reasonSize    = "size"
	reasonLong    = "long"
	reasonGone    = "gone" // the desktop, or its machine
	reasonFull    = "disk_full"
	reasonHost    = "host_stopped"
	reasonDied    = "host_died"
	reasonFailed  = "failed"
)

// Bounds of a recording.
const (
	firstPicture = 15 * time.Second // how long Start waits for it
	longest      = 4 * time.Hour    // of one file
)

// recorder is a viewer that writes. Its goroutine, run, owns the file; the events'
// adds chapters.
type recorder struct {
	desk    *Desk
	desktop string // id
	viewer  *stream.Viewer
	events  Events
	who     control.Holder
	stop    func()
	asked   chan struct{} // closed by stop
	over    chan struct{} // closed when all is finished

	file *os.File
	w    *webm.Writer

	mu    sync.Mutex
	row   row       // guarded by mu
	cur   *chapter  // guarded by mu; the newest
	marks *os.File  // guarded by mu
	start time.Time // guarded by mu, written by run; of the first picture
}

// begin joins the stream and begins a file with its first picture.
func (d *Desk) begin(ctx context.Context, s *stream.Stream, of row, who control.Holder) (*recorder, error) {
	ctx, cancel := context.WithTimeout(ctx, firstPicture)
	defer cancel()
	v, err := watch(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &recorder{
		desk: d, desktop: of.Desktop, viewer: v, events: d.cfg.Follow(of.Desktop), who: who, asked: make(chan struct{}), over: make(chan struct{}),
	}
	r.stop = sync.OnceFunc(func() { close(r.asked) })
	f, err := v.Next(ctx)
	if err == nil {
		err = r.open(ctx, f, of)
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = api.Errorf(api.CodeGuestUnavail, "the screen shows nothing that could be recorded; try again")
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	return r, nil
}

// watch joins as a viewer, in the codec of most viewers so that nothing is encoded
// twice.
func watch(ctx context.Context, s *stream.Stream) (*stream.Viewer, error) {
	var v *stream.Viewer
	var err error
	for _, codec := range []video.Codec{video.VP9, video.VP8} {
		if v, err = s.Watch(ctx, stream.Want{Codec: codec, Recording: true, Reliable: true}); !errors.Is(err, desktop.ErrUnsupported) {
			return v, err
		}
	}
	return nil, api.Errorf(api.CodeUnsupported, "this build of vmhost encodes no video, so it cannot record")
}

// open begins a file with a picture, which is a key.
func (r *recorder) open(ctx context.Context, f stream.Frame, of row) error {
	d := r.desk
	of.ID, of.State, of.Begun = token.NewID('r'), api.RecordingRuns, d.cfg.Now().UTC()
	of.Codec, of.Width, of.Height = string(f.Codec), f.Width, f.Height
	if host, err := d.cfg.Usage(); err == nil && host.DiskAvailable < d.cfg.Limits.Spare {
		return api.Errorf(api.CodeNoSpace, "the disk has %d MiB left, and recordings leave %d MiB", host.DiskAvailable>>20, d.cfg.Limits.Spare>>20)
	}
	if err := d.write(of); err != nil {
		return err
	}
	file, w, marks, err := d.create(f, of)
	if err != nil {
		return errors.Join(err, d.unlink(of.ID))
	}
	kept := of
	d.mu.Lock()
	d.kept[of.ID] = &kept
	d.mu.Unlock()
	r.file, r.w = file, w
	r.mu.Lock()
	r.row, r.cur, r.marks, r.start = of, nil, marks, f.At
	r.mu.Unlock()
	r.add([]string{"start"})
	data := map[string]any{"by": of.By}
	if of.Follows != "" {
		data["follows"] = of.Follows
	}
	d.note(ctx, &of, event.TypeRecordingStarted, r.who, data)
	return nil
}

// create makes the files of a recording, with its first picture.
func (d *Desk) create(f stream.Frame, of row) (file *os.File, w *webm.Writer, marks *os.File, err error) {
	if file, err = os.OpenFile(d.path(of.ID, videoSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, nil, nil, fmt.Errorf("begin recording: %w", err)
	}
	if marks, err = os.OpenFile(d.path(of.ID, marksSuffix), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
		w, err = webm.Create(file, of.config())
	}
	if err == nil {
		err = w.Write(0, true, f.Data)
	}
	if err != nil {
		file.Close()
		marks.Close()
		return nil, nil, nil, fmt.Errorf("begin recording: %w", err)
	}
	return file, w, marks, nil
}

// config is what the file of a recording holds.
func (r row) config() webm.Config {
	return webm.Config{Codec: r.Codec, Width: r.Width, Height: r.Height, Begun: r.Begun}
}

// now describes the recording.
func (r *recorder) now() api.Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.row.Recording
	got.Chapters = append([]api.Chapter{}, got.Chapters...)
	return got
}

// run records until the host stops, somebody stops it, or the screen is gone.
func (r *recorder) run(ctx context.Context) {
	defer close(r.over)
	defer r.desk.release(r.desktop)
	ctx, cancel := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { r.hear(ctx) })
	hearing.Go(func() {
		select {
		case <-r.asked:
		case <-ctx.Done():
		}
		r.viewer.Close()
	})
	reason := r.record(ctx)
	cancel()
	hearing.Wait()
	r.close(ctx, reason)
	r.desk.sweep(context.WithoutCancel(ctx))
}

// hear makes chapters of events.
func (r *recorder) hear(ctx context.Context) {
	for {
		e, err := r.events.Next(ctx)
		switch {
		case err == nil:
			if words := wordsOf(e); len(words) > 0 && r.add(words) {
				r.viewer.RequestKey()
			}
		case errors.Is(err, event.ErrLost):
			r.events = r.desk.cfg.Follow(r.desktop) // with those from now on
		default:
			return
		}
	}
}

// add tells the newest chapter, or a new one, of what happens now. It answers whether
// that is new.
func (r *recorder) add(words []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.start)
	fresh := r.cur == nil || at-r.cur.at >= mergeWithin
	list := r.row.Chapters
	if fresh {
		if r.cur == nil {
			at = 0
		}
		r.cur = newChapter(at)
	} else {
		list = list[:len(list)-1]
	}
	r.cur.add(words)
	m := r.cur.mark()
	r.row.Chapters = append(list, m)
	if err := appendMark(r.marks, m); err != nil {
		r.desk.cfg.Logger.Debug("chapter not kept for a crash", "recording", r.row.ID, "err", err)
	}
	return fresh
}

// record writes pictures and answers why it ended.
func (r *recorder) record(ctx context.Context) string {
	for {
		f, err := r.viewer.Next(ctx)
		if err != nil {
			return r.why(ctx)
		}
		if reason := r.turn(f); reason != "" {
			if err := r.next(ctx, f, reason); err != nil {
				r.desk.cfg.Logger.Warn("recording does not go on", "desktop", r.desktop, "err", err)
				return ""
			}
			continue
		}
		if f.Key {
			if host, err := r.desk.cfg.Usage(); err == nil && host.DiskAvailable < r.desk.cfg.Limits.Spare {
				return reasonFull
			}
		}
		if err := r.w.Write(f.At.Sub(r.start), f.Key, f.Data); err != nil {
			r.desk.cfg.Logger.Warn("recording ends", "desktop", r.desktop, "err", err)
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				return reasonFull
			}
			return reasonFailed
		}
		r.mu.Lock()
		r.row.Bytes, r.row.DurationMS = r.w.Size(), r.w.Last().Milliseconds()
		r.mu.Unlock()
	}
}

// why is the reason for an end of the stream.
func (r *recorder) why(ctx context.Context) string {
	select {
	case <-r.asked:
		return reasonStopped
	default:
	}
	if ctx.Err() != nil {
		return reasonHost
	}
	return reasonGone
}

// turn says why a picture does not fit into the present file; empty: it does.
func (r *recorder) turn(f stream.Frame) string {
	switch {
	case f.Width != r.row.Width || f.Height != r.row.Height:
		return reasonSize
	case f.Key && (r.w.Size() >= r.desk.cfg.Limits.Part || f.At.Sub(r.start) >= longest):
		return reasonLong
	}
	return ""
}

// next goes on in another file with a picture, which is a key.
func (r *recorder) next(ctx context.Context, f stream.Frame, reason string) error {
	r.mu.Lock()
	of := r.row
	r.mu.Unlock()
	of.Follows, of.Chapters, of.Bytes, of.DurationMS = of.ID, []api.Chapter{}, 0, 0
	r.close(ctx, reason)
	r.desk.sweep(ctx)
	return r.open(ctx, f, of)
}

// close finishes the file; without a reason that is done.
func (r *recorder) close(ctx context.Context, reason string) {
	if reason == "" {
		return
	}
	d := r.desk
	r.mu.Lock()
	of, marks := r.row, r.marks
	r.mu.Unlock()
	// A screen that is still has no picture at the end; the last one lasts until then.
	end := min(max(time.Since(r.start), r.w.Last()), r.w.Last()+time.Second)
	err := d.finish(r.file, r.w, &of, end)
	err = errors.Join(err, r.file.Close(), marks.Close())
	of.State, of.Reason = api.RecordingFinished, reason
	if err = errors.Join(err, d.seal(of)); err != nil {
		d.cfg.Logger.Error("recording not finished; the next start tries again", "recording", of.ID, "err", err)
	}
	r.mu.Lock()
	r.row = of
	r.mu.Unlock()
	d.note(ctx, &of, event.TypeRecordingEnded, r.who, map[string]any{
		"reason": reason, "duration_ms": of.DurationMS, "bytes": of.Bytes,
	})
}
