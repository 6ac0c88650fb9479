package webm

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"
)

// Codecs.
const (
	VP9 = "vp9"
	VP8 = "vp8"
)

// Config says what a file holds. All members are required.
type Config struct {
	Codec         string // VP9 or VP8
	Width, Height int    // of its pictures, in pixels
	Begun         time.Time
}

func (c Config) check() error {
	if (c.Codec != VP9 && c.Codec != VP8) || c.Width < 1 || c.Height < 1 {
		return fmt.Errorf("write WebM: %d×%d pixels in %q: use vp9 or vp8", c.Width, c.Height, c.Codec)
	}
	return nil
}

// File is where a recording goes; *os.File is one.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// Chapter is a mark in a recording, until the next one.
type Chapter struct {
	At    time.Duration // from its start
	Title string
}

// Writer writes one file. It is used by one goroutine at a time.
type Writer struct {
	f    File
	cfg  Config
	head int64 // its length; the segment starts there

	pos      int64 // where the next picture goes
	clusters []part
	cues     []cue
	last     time.Duration // of the newest picture
	any      bool
}

// part is a cluster: where it begins, and its first picture's time.
type part struct {
	from int64
	at   time.Duration
	last time.Duration // of the newest picture before it
}

// cue is a key.
type cue struct {
	at      time.Duration
	cluster int64 // where its cluster begins, from the segment's start
}

// clusterMost is how long a cluster is at most: pictures' times in it have 16 bits.
const clusterMost = 30 * time.Second

// Create begins a file, which is empty.
func Create(f File, cfg Config) (*Writer, error) {
	w, err := newWriter(f, cfg)
	if err != nil {
		return nil, err
	}
	start, err := head()
	if err != nil {
		return nil, err
	}
	front, err := cfg.front(nil, 0, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(append(start, front...), 0); err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	return w, nil
}

func newWriter(f File, cfg Config) (*Writer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	start, err := head()
	return &Writer{f: f, cfg: cfg, head: int64(len(start)), pos: int64(len(start)) + frontSize}, err
}

// Size is the file's, in bytes, without what Finish adds.
func (w *Writer) Size() int64 { return w.pos }

// Last is the time of the newest picture, from the recording's start.
func (w *Writer) Last() time.Duration { return w.last }

// Write adds a picture; the first is a key. A picture that is not later than the one
// before is a millisecond later. What failed is not in the file, and Finish may still
// be called.
func (w *Writer) Write(at time.Duration, key bool, data []byte) error {
	at = max(at.Truncate(timeUnit), 0)
	if w.any {
		at = max(at, w.last+timeUnit)
	}
	if key || len(w.clusters) == 0 || at-w.clusters[len(w.clusters)-1].at > clusterMost {
		return w.begin(at, key, data)
	}
	b, err := block(at-w.clusters[len(w.clusters)-1].at, key, data)
	if err != nil {
		return err
	}
	return w.append(b, at)
}

// begin adds a picture in a cluster of its own.
func (w *Writer) begin(at time.Duration, key bool, data []byte) error {
	if err := w.closeCluster(); err != nil {
		return err
	}
	b, err := cluster(at)
	if err != nil {
		return err
	}
	first, err := block(0, key, data)
	if err != nil {
		return err
	}
	p := part{from: w.pos, at: at, last: w.last}
	if err := w.append(append(b, first...), at); err != nil {
		return err
	}
	w.clusters = append(w.clusters, p)
	if key {
		w.cues = append(w.cues, cue{at: at, cluster: p.from - w.head})
	}
	return nil
}

func (w *Writer) append(b []byte, at time.Duration) error {
	if _, err := w.f.WriteAt(b, w.pos); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	w.pos += int64(len(b))
	w.last, w.any = at, true
	return nil
}

// closeCluster fills in the size of the newest cluster.
func (w *Writer) closeCluster() error {
	if len(w.clusters) == 0 {
		return nil
	}
	const idSize = 4
	from := w.clusters[len(w.clusters)-1].from
	if _, err := w.f.WriteAt(wide(w.pos-from-idSize-wideSize), from+idSize); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}

// Finish ends the file: it has a duration, cues and chapters then, which are sorted
// by their time. On a disk that is full the newest pictures make room. After an error
// the file can be played still, and Recover takes it up.
func (w *Writer) Finish(end time.Duration, chapters []Chapter) error {
	for {
		err := w.finish(max(end, w.last), chapters)
		if !full(err) || len(w.clusters) < 2 {
			return err
		}
		p := w.clusters[len(w.clusters)-1]
		w.clusters = w.clusters[:len(w.clusters)-1]
		w.pos, w.last, end = p.from, p.last, p.last
		w.cues = slices.DeleteFunc(w.cues, func(c cue) bool { return c.cluster == p.from-w.head })
		chapters = slices.DeleteFunc(slices.Clone(chapters), func(c Chapter) bool { return c.At > end })
	}
}

// full says whether an error is that of a disk, or of a quota, that has no room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func (w *Writer) finish(end time.Duration, chapters []Chapter) error {
	if err := w.f.Truncate(w.pos); err != nil {
		return fmt.Errorf("finish recording: %w", err)
	}
	if err := w.closeCluster(); err != nil {
		return err
	}
	var tail []byte
	var cuesAt, chaptersAt int64
	if len(w.cues) > 0 {
		cues, err := cuesOf(w.cues)
		if err != nil {
			return err
		}
		marks, err := chaptersOf(chapters, end)
		if err != nil {
			return err
		}
		cuesAt = w.pos - w.head
		if len(marks) > 0 {
			chaptersAt = cuesAt + int64(len(cues))
		}
		tail = append(cues, marks...)
	}
	front, err := w.cfg.front(&end, cuesAt, chaptersAt)
	if err != nil {
		return err
	}
	all := w.pos + int64(len(tail))
	for _, s := range []struct {
		at   int64
		data []byte
	}{{w.pos, tail}, {w.head, front}, {w.head - wideSize, wide(all - w.head)}} {
		if _, err := w.f.WriteAt(s.data, s.at); err != nil {
			return fmt.Errorf("finish recording: %w", err)
		}
		// The front speaks of the tail: that is there first.
		if err := w.f.Sync(); err != nil {
			return fmt.Errorf("finish recording: %w", err)
		}
	}
	return nil
}
