package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/webm"
)

// DirName is the folder of recordings in the data directory.
const DirName = "recordings"

// What files of a recording are called, after its id.
const (
	rowSuffix   = ".json"
	videoSuffix = ".webm"
	marksSuffix = ".marks" // its chapters so far, one a line; a later one of the same time replaces
)

func (d *Desk) path(id, suffix string) string { return filepath.Join(d.cfg.Dir, id+suffix) }

// write keeps what is known of a recording.
func (d *Desk) write(r row) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return atomicfile.Write(d.path(r.ID, rowSuffix), data, 0o600)
}

// unlink removes the files of a recording; what is known of it goes last.
func (d *Desk) unlink(id string) error {
	var errs []error
	for _, s := range []string{videoSuffix, marksSuffix, rowSuffix} {
		if err := os.Remove(d.path(id, s)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// finish ends a recording's video.
func (d *Desk) finish(f *os.File, w *webm.Writer, of *row, end time.Duration) error {
	marks := make([]webm.Chapter, 0, len(of.Chapters))
	for _, c := range of.Chapters {
		marks = append(marks, webm.Chapter{At: time.Duration(c.AtMS) * time.Millisecond, Title: c.Title})
	}
	err := w.Finish(end, marks)
	end = max(min(end, w.Last()+time.Second), w.Last()) // it may have lost pictures to a disk that is full
	of.DurationMS, of.Ended, of.Bytes = end.Milliseconds(), of.Begun.Add(end), w.Size()
	if info, serr := f.Stat(); serr == nil {
		of.Bytes = info.Size()
	}
	return err
}

// seal says that a recording has ended.
func (d *Desk) seal(of row) error {
	d.mu.Lock()
	if old := d.kept[of.ID]; old != nil {
		*old = of
	}
	d.mu.Unlock()
	if err := d.write(of); err != nil {
		return err
	}
	if err := os.Remove(d.path(of.ID, marksSuffix)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// appendMark keeps a chapter for who finds the recording after a crash.
func appendMark(f *os.File, c api.Chapter) error {
	line, err := json.Marshal(c)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return err
}

// readMarks reads them back; a line that was cut short is left out.
func readMarks(data []byte) []api.Chapter {
	list := []api.Chapter{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var c api.Chapter
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			continue
		}
		if n := len(list); n > 0 && list[n-1].AtMS >= c.AtMS {
			list = list[:n-1]
		}
		list = append(list, c)
	}
	return list
}

// load reads the folder.
func (d *Desk) load() error {
	if err := os.MkdirAll(d.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("open recordings: %w", err)
	}
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("open recordings: %w", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), rowSuffix)
		if !ok {
			continue
		}
		r, err := d.take(id)
		if err != nil {
			d.cfg.Logger.Warn("recording not taken up", "recording", id, "err", err)
			continue
		}
		d.kept[id] = r
	}
	return nil
}

// take reads a recording back, and finishes it if that was not done.
func (d *Desk) take(id string) (*row, error) {
	data, err := os.ReadFile(d.path(id, rowSuffix))
	if err != nil {
		return nil, err
	}
	var r row
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.ID != id {
		return nil, fmt.Errorf("its file says that it is %q", r.ID)
	}
	if _, err := os.Stat(d.path(id, videoSuffix)); errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, d.unlink(id)) // it was being removed, or made
	}
	if r.State == api.RecordingFinished {
		return &r, nil
	}
	if data, err = os.ReadFile(d.path(id, marksSuffix)); err == nil {
		r.Chapters = readMarks(data)
	}
	f, err := os.OpenFile(d.path(id, videoSuffix), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	w, err := webm.Recover(f, r.config())
	if err == nil {
		err = d.finish(f, w, &r, w.Last())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	r.State, r.Reason = api.RecordingFinished, cmp.Or(r.Reason, reasonDied)
	return &r, d.seal(r)
}

// sweep removes what is too old, and the oldest of what is too much. What runs stays.
func (d *Desk) sweep(ctx context.Context) {
	var ended []*row
	total := int64(0)
	d.mu.Lock()
	for _, r := range d.kept {
		total += d.tell(r).Bytes
		if r.State == api.RecordingFinished {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *row) int { return a.Ended.Compare(b.Ended) })
	d.mu.Unlock()
	for _, r := range ended {
		var why string
		switch {
		case d.cfg.Now().Sub(r.Ended) > d.cfg.Limits.Age:
			why = "age"
		case total > d.cfg.Limits.Bytes:
			why = "space"
		default:
			return
		}
		total -= r.Bytes
		if err := d.remove(ctx, r.ID, control.Holder{}, why); err != nil {
			d.cfg.Logger.Warn("recording not removed", "recording", r.ID, "err", err)
		}
	}
}
