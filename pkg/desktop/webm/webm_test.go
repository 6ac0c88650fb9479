//go:build cgo

package webm_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/at-wat/ebml-go"
	format "github.com/at-wat/ebml-go/webm"

	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
	"github.com/deskfork/deskfork/pkg/desktop/webm"
)

const (
	width, height = 160, 96
	frames        = 60
	frameGap      = 100 * time.Millisecond
	keyEvery      = 20
)

var (
	begun  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	config = webm.Config{Codec: webm.VP9, Width: width, Height: height, Begun: begun}
	marks  = []webm.Chapter{{At: 0, Title: "start"}, {At: 2500 * time.Millisecond, Title: "click, type “ß”"}, {At: 4 * time.Second, Title: "control: person"}}
)

// shade is what the screen shows at a frame.
func shade(i int) color.RGBA { return color.RGBA{byte(4 * i), 60, byte(240 - 4*i), 255} }

// chunks are pictures of a screen whose colour changes.
func chunks(t *testing.T, codec video.Codec) []video.Chunk {
	t.Helper()
	enc, err := video.New(video.Config{Codec: codec, Size: image.Pt(width, height)})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	var list []video.Chunk
	for i := range frames {
		videotest.Fill(img, img.Rect, shade(i))
		c, err := enc.Encode(video.Picture{Image: img, Key: i%keyEvery == 0, Changed: []image.Rectangle{img.Rect}, Elapsed: 100})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// create makes a file of pictures that is not finished.
func create(t *testing.T, f webm.File, cfg webm.Config, list []video.Chunk) *webm.Writer {
	t.Helper()
	w, err := webm.Create(f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		if err := w.Write(time.Duration(i)*frameGap, c.Key, c.Data); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func open(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "r.webm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// seen is what a file says.
type seen struct {
	Header  format.EBMLHeader `ebml:"EBML"`
	Segment struct {
		SeekHead *format.SeekHead `ebml:"SeekHead"`
		Info     format.Info      `ebml:"Info"`
		Tracks   format.Tracks    `ebml:"Tracks"`
		Cluster  []format.Cluster `ebml:"Cluster"`
		Cues     *format.Cues     `ebml:"Cues"`
		Chapters struct {
			EditionEntry struct {
				ChapterAtom []struct {
					ChapterTimeStart uint64 `ebml:"ChapterTimeStart"`
					ChapterTimeEnd   uint64 `ebml:"ChapterTimeEnd"`
					ChapterDisplay   struct {
						ChapString string `ebml:"ChapString"`
					} `ebml:"ChapterDisplay"`
				} `ebml:"ChapterAtom"`
			} `ebml:"EditionEntry"`
		} `ebml:"Chapters"`
	} `ebml:"Segment"`
}

// read reads a file back with a parser that is not ours.
func read(t *testing.T, f *os.File) seen {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	if err := ebml.Unmarshal(bytes.NewReader(data), &s, ebml.WithIgnoreUnknown(true)); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if list := s.Segment.SeekHead; list != nil {
		const start = 4 + 8
		head := bytes.Index(data, []byte{0x18, 0x53, 0x80, 0x67}) + start
		for _, e := range list.Seek {
			if !bytes.HasPrefix(data[head+int(e.SeekPosition):], e.SeekID) {
				t.Errorf("%x is not at %d", e.SeekID, e.SeekPosition)
			}
		}
		for _, c := range s.Segment.Cues.CuePoint {
			if at := head + int(c.CueTrackPositions[0].CueClusterPosition); !bytes.HasPrefix(data[at:], []byte{0x1F, 0x43, 0xB6, 0x75}) {
				t.Errorf("a cue at %d is no cluster", at)
			}
		}
	}
	return s
}

// plays decodes all pictures.
func (s seen) plays(t *testing.T, codec video.Codec, want int) {
	t.Helper()
	dec, n := videotest.NewDecoder(t, codec), 0
	for _, c := range s.Segment.Cluster {
		for _, b := range c.SimpleBlock {
			if at := time.Duration(c.Timecode+uint64(b.Timecode)) * time.Millisecond; at != time.Duration(n)*frameGap {
				t.Errorf("picture %d is at %s", n, at)
			}
			img, err := dec.Decode(b.Data[0], width, height)
			if err != nil {
				t.Fatalf("picture %d: %v", n, err)
			}
			if n%keyEvery%9 != 8 {
				n++
				continue // looking at each pixel takes longest
			}
			flat := image.NewRGBA(img.Rect)
			videotest.Fill(flat, flat.Rect, shade(n))
			if q := videotest.PSNR(img, flat); q < 28 {
				t.Errorf("picture %d: %.1f dB", n, q)
			}
			n++
		}
	}
	if n != want {
		t.Errorf("%d pictures, want %d", n, want)
	}
}

// TestRecording: what was written can be read, in both codecs, with duration, cues
// and chapters, and every picture decodes.
func TestRecording(t *testing.T) {
	for _, codec := range []string{webm.VP9, webm.VP8} {
		t.Run(codec, func(t *testing.T) {
			f, cfg := open(t), config
			cfg.Codec = codec
			w := create(t, f, cfg, chunks(t, video.Codec(codec)))
			early := read(t, f) // as somebody does who cannot wait
			early.plays(t, video.Codec(codec), frames)
			if err := w.Finish(6*time.Second, marks); err != nil {
				t.Fatal(err)
			}
			s := read(t, f)
			s.plays(t, video.Codec(codec), frames)
			if i := s.Segment.Info; i.Duration != 6000 || !i.DateUTC.Equal(begun) || s.Header.DocType != "webm" {
				t.Errorf("%+v", i)
			}
			if v := s.Segment.Tracks.TrackEntry[0].Video; v.PixelWidth != width || v.PixelHeight != height {
				t.Errorf("%+v", v)
			}
			if got := s.times(); got != "cues 0 2000 4000, chapters 0-2500 start, 2500-4000 click, type “ß”, 4000-6000 control: person" {
				t.Error(got)
			}
		})
	}
}

func (s seen) times() string {
	var b bytes.Buffer
	b.WriteString("cues")
	for _, c := range s.Segment.Cues.CuePoint {
		fmt.Fprintf(&b, " %d", c.CueTime)
	}
	word := ", chapters"
	for _, c := range s.Segment.Chapters.EditionEntry.ChapterAtom {
		fmt.Fprintf(&b, "%s %d-%d %s", word, c.ChapterTimeStart/1e6, c.ChapterTimeEnd/1e6, c.ChapterDisplay.ChapString)
		word = ","
	}
	return b.String()
}

// TestCut: a file that was cut anywhere is taken up again with what is whole of it,
// and finished.
func TestCut(t *testing.T) {
	list := chunks(t, video.VP9)
	f := open(t)
	w := create(t, f, config, list)
	size := w.Size()
	whole := make([]byte, size)
	if _, err := f.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(w.Last(), marks); err != nil {
		t.Fatal(err)
	}
	done, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		data []byte
		most int
	}{
		{"all", whole, frames},
		{"last picture", whole[:size-1], frames - 1},
		{"half", whole[:size/2], frames - 5},
		{"no picture", whole[:600], 0},
		{"while it was finished", done[:len(done)-20], frames},
		{"with zeros after it", append(bytes.Clone(whole), make([]byte, 4096)...), frames},
		{"finished", done, frames},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t)
			if _, err := f.Write(tc.data); err != nil {
				t.Fatal(err)
			}
			w, err := webm.Recover(f, config)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			if tc.most > 0 {
				n = int(w.Last()/frameGap) + 1
			}
			if n > tc.most || n < tc.most/2 || (tc.most >= frames-1 && n != tc.most) {
				t.Errorf("%d pictures", n)
			}
			if err := w.Finish(w.Last(), marks); err != nil {
				t.Fatal(err)
			}
			s := read(t, f)
			s.plays(t, video.VP9, n)
			if n == frames && s.times() != "cues 0 2000 4000, chapters 0-2500 start, 2500-4000 click, type “ß”, 4000-5900 control: person" {
				t.Error(s.times())
			}
		})
	}
}

// small is a file on a disk with so much room.
type small struct {
	*os.File

	room int64
}

func (s small) WriteAt(b []byte, at int64) (int, error) {
	if left := max(s.room-at, 0); int64(len(b)) > left {
		n, err := s.File.WriteAt(b[:left], at)
		if err == nil {
			err = syscall.ENOSPC
		}
		return n, err
	}
	return s.File.WriteAt(b, at)
}

// TestFull: a disk that is full ends a recording with a file that is whole.
func TestFull(t *testing.T) {
	list := chunks(t, video.VP9)
	room := create(t, open(t), config, list[:2*keyEvery+5]).Size() + 10
	f := open(t)
	w, err := webm.Create(small{f, room}, config)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		if err = w.Write(time.Duration(i)*frameGap, c.Key, c.Data); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("there was room")
	}
	if err := w.Finish(6*time.Second, marks); err != nil {
		t.Fatal(err)
	}
	s := read(t, f)
	s.plays(t, video.VP9, 2*keyEvery)
	if got := s.times(); got != "cues 0 2000, chapters 0-2500 start, 2500-3900 click, type “ß”" {
		t.Error(got)
	}
	if s.Segment.Info.Duration != 3900 {
		t.Errorf("%v ms", s.Segment.Info.Duration)
	}
}

// FuzzRecover: whatever is in a file, it is finished or refused.
func FuzzRecover(f *testing.F) {
	f.Add([]byte{0x1A, 0x45, 0xDF, 0xA3}, []byte{})
	f.Add([]byte{0x1A, 0x45, 0xDF, 0xA3}, []byte("\x1F\x43\xB6\x75\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xE7\x81\x00\xA3\x85\x81\x00\x00\x80x\xA3\x85\x81\x00\x09\x00y"))
	f.Fuzz(func(t *testing.T, head, rest []byte) {
		file := open(t)
		if _, err := file.Write(head); err != nil {
			t.Fatal(err)
		}
		w, err := webm.Create(open(t), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(rest, w.Size()); err != nil {
			t.Fatal(err)
		}
		if w, err = webm.Recover(file, config); err != nil {
			return
		}
		if err := w.Finish(w.Last(), nil); err != nil {
			t.Fatal(err)
		}
	})
}
