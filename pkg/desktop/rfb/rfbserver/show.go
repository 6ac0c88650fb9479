package rfbserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/desktop"
)

// Types of server messages.
const (
	msgUpdate    = 0
	msgBell      = 2
	msgServerCut = 3
)

const (
	// maxUnanswered is how many updates a client may be behind.
	maxUnanswered = 2
	// While a client acts its cursor is looked at so often; its picture may change
	// without a pixel of the screen.
	cursorPause = 100 * time.Millisecond
	activeFor   = 2 * time.Second
)

// watch fetches frames as show wants them.
func (s *session) watch(ctx context.Context) error {
	for {
		var after uint64
		select {
		case after = <-s.wanted:
		case <-ctx.Done():
			return ctx.Err()
		}
		f, err := s.fetch(ctx, after)
		if err != nil {
			return fmt.Errorf("look at the screen: %w", err)
		}
		s.change(func(st *state) { st.newest, st.fetching, st.interrupt = f, false, nil })
	}
}

// fetch waits for a frame newer than one. It comes back with the present one when
// that is wanted, and, while the client acts, from time to time: its cursor may be
// new.
func (s *session) fetch(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		nctx, cancel := context.WithTimeout(ctx, cursorPause)
		s.mu.Lock()
		present := s.state.present || time.Since(s.state.acted) < activeFor && s.state.waited
		s.state.present, s.state.waited, s.state.interrupt = false, false, cancel
		s.mu.Unlock()
		if present {
			cancel()
			return s.cfg.Source.Frame(ctx)
		}
		f, err := s.cfg.Source.Next(nctx, after)
		late := nctx.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !late {
			return f, err
		}
		s.mu.Lock()
		s.state.waited = true
		s.mu.Unlock()
	}
}

// shown is what the client was sent. It belongs to show.
type shown struct {
	frame  *desktop.Frame // nil: none
	all    bool           // none of its pixels count any more
	size   image.Point
	told   bool // of keys and sizes
	cursor desktop.Cursor
	at     time.Time
}

// show sends what there is to send until ctx ends.
func (s *session) show(ctx context.Context) error {
	last := shown{size: s.size, all: true}
	for {
		select {
		case <-s.wake:
		case text, ok := <-s.cfg.Copies:
			if !ok {
				s.cfg.Copies = nil
				continue
			}
			if err := s.write(cutMessage(text)); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.round(ctx, &last); err != nil {
			return err
		}
	}
}

// due is what of the state one update is made from.
type due struct {
	frame   *desktop.Frame
	known   map[int32]bool
	request *updateRequest // nil: the client wants what changes
	resized []byte
}

// forced is the part of a screen that is to be sent in any case.
func (d *due) forced() image.Rectangle {
	if d.request == nil || d.request.incremental {
		return image.Rectangle{}
	}
	return d.request.rect.Intersect(d.frame.Image.Rect)
}

// round sends once what is due.
func (s *session) round(ctx context.Context, last *shown) error {
	answers, d := s.look(last)
	for _, a := range answers {
		if err := s.write(a); err != nil {
			return err
		}
	}
	if d == nil {
		return nil
	}
	if err := sleep.For(ctx, time.Until(last.at.Add(framePause))); err != nil {
		return err
	}
	defer s.poke() // to fetch the next one
	return s.update(last, d)
}

// look takes out of the state what is to be sent now. Where the client is ready and
// nothing is new it has a frame fetched: not before, so that the client gets the
// newest.
func (s *session) look(last *shown) ([][]byte, *due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.state
	answers := st.answers
	if st.bell {
		answers = append(answers, []byte{msgBell})
	}
	st.answers, st.bell = nil, false
	if st.format != nil {
		s.enc.format, st.format = *st.format, nil
		last.all, last.cursor = true, desktop.Cursor{}
	}
	s.enc.kind = st.kind
	if st.request == nil && (st.continuous == nil || st.unanswered >= maxUnanswered) {
		return answers, nil
	}
	return answers, s.ready(last)
}

// ready is what one update is made from, or nil while a frame is fetched for it.
// s.mu is held.
func (s *session) ready(last *shown) *due {
	st := &s.state
	d := &due{frame: st.newest, known: st.known, request: st.request, resized: st.resized}
	st.newest = nil
	again := last.all || d.resized != nil || !last.told && d.known != nil || d.request != nil && !d.request.incremental
	if d.frame != nil {
		st.resized = nil
		return d
	}
	if again {
		st.present = true
		if st.interrupt != nil {
			st.interrupt()
		}
	}
	if !st.fetching {
		st.fetching = true
		after := uint64(0)
		if last.frame != nil {
			after = last.frame.Seq
		}
		s.wanted <- after // there is room: nobody else fetches
	}
	return nil
}

// update sends a frame as far as the client does not have it.
func (s *session) update(last *shown, d *due) error {
	f := d.frame
	out, rects := []byte{msgUpdate, 0, 0, 0}, 0
	if d.known[encExtendedKey] && !last.told {
		out, rects = header(out, image.Rectangle{}, encExtendedKey), 1
	}
	out, n, err := sizes(out, f.Image.Rect.Size(), last, d)
	if err != nil {
		return err
	}
	rects += n
	last.told = last.told || d.known != nil
	if d.known[encCursor] && !sameCursor(f.Cursor, last.cursor) {
		out = s.enc.appendCursor(out, f.Cursor)
		last.cursor = f.Cursor
		rects++
	}
	for _, r := range s.dirty(last, f, d.forced()) {
		if out, err = s.enc.rect(out, f.Image, r); err != nil {
			return err
		}
		rects++
	}
	last.frame, last.all = f, false
	if rects == 0 {
		return nil // the request waits
	}
	binary.BigEndian.PutUint16(out[2:], uint16(rects))
	s.mu.Lock()
	if s.state.request == d.request {
		s.state.request = nil
	}
	if s.state.continuous != nil && d.known[encFence] {
		s.state.unanswered++
		out = append(out, appendFence(fenceRequest|1, nil)...)
	}
	s.mu.Unlock()
	last.at = time.Now()
	return s.write(out)
}

// dirty is what of a frame the client does not have, and what it wants anyhow.
func (s *session) dirty(last *shown, f *desktop.Frame, forced image.Rectangle) []image.Rectangle {
	if last.all || last.frame == nil || last.frame.Image.Rect != f.Image.Rect {
		return whole(f.Image.Rect)
	}
	var rects []image.Rectangle
	if f.Seq != last.frame.Seq {
		rects = changed(last.frame.Image, f.Image, since(s.cfg.Source, last.frame.Seq))
	}
	if forced.Empty() {
		return rects
	}
	out := whole(forced)
	for _, r := range rects {
		if !r.In(forced) {
			out = append(out, r)
		}
	}
	return out
}

// sizes adds the size of the screen where it has changed, or the client asked.
func sizes(out []byte, size image.Point, last *shown, d *due) ([]byte, int, error) {
	is, resized := size != last.size, d.resized
	if d.known[encExtendedSize] && (is || !last.told || resized != nil) {
		last.size = size
		var n int
		if resized != nil {
			out = extendedSize(out, size, resized[0], resized[1])
			n++
		}
		if is || !last.told {
			out = extendedSize(out, size, 0, 0)
			n++
		}
		return out, n, nil
	}
	if !is {
		return out, 0, nil
	}
	if !d.known[encDesktopSize] {
		return nil, 0, errors.New("the screen has another size, and the client does not know such")
	}
	last.size = size
	return header(out, image.Rectangle{Max: size}, encDesktopSize), 1, nil
}

// extendedSize adds a layout of one screen.
func extendedSize(out []byte, size image.Point, reason, status byte) []byte {
	at := image.Pt(int(reason), int(status))
	out = header(out, image.Rectangle{Min: at, Max: at.Add(size)}, encExtendedSize)
	out = append(out, 1, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, 0)
	for _, v := range []int{0, 0, size.X, size.Y} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	return binary.BigEndian.AppendUint32(out, 0)
}

// cutMessage is a text for the client's clipboard. RFB knows Latin-1 alone: what is
// beyond it becomes a question mark.
func cutMessage(text string) []byte {
	latin := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			r = '?'
		}
		latin = append(latin, byte(r))
	}
	latin = latin[:min(len(latin), maxCut)]
	b := binary.BigEndian.AppendUint32([]byte{msgServerCut, 0, 0, 0}, uint32(len(latin)))
	return append(b, latin...)
}
