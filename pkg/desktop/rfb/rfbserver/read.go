package rfbserver

import (
	"context"
	"encoding/binary"
	"errors"
	"image"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Flags of fences.
const (
	fenceRequest   = 1 << 31
	fenceSupported = 1<<0 | 1<<1 | 1<<2 // block before, block after, sync next
)

// read takes the client's messages until it goes away.
func (s *session) read(ctx context.Context) error {
	r := reader{s.conn}
	for {
		m, err := r.next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case keyEvent, pointerEvent, cutText, setDesktopSize:
			select {
			case s.events <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			s.change(func(st *state) { st.take(m) })
		}
	}
}

// take notes a message that concerns what is sent.
func (st *state) take(m message) {
	switch m := m.(type) {
	case format:
		st.format = &m
	case setEncodings:
		st.encodings(m)
	case updateRequest:
		if st.request != nil {
			m.incremental = m.incremental && st.request.incremental
			m.rect = m.rect.Union(st.request.rect)
		}
		st.request = &m
	case continuous:
		st.continuous = &m
		if !m.on {
			st.continuous = nil
			st.answers = append(st.answers, []byte{msgContinuous})
		}
		st.unanswered = 0
	case fence:
		if m.flags&fenceRequest == 0 {
			st.unanswered = max(st.unanswered-1, 0)
			return
		}
		if len(st.answers) < maxPending {
			st.answers = append(st.answers, appendFence(m.flags&fenceSupported, m.payload))
		}
	}
}

func appendFence(flags uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{msgFence, 0, 0, 0}, flags)
	return append(append(b, byte(len(payload))), payload...)
}

// encodings notes what the client knows, and tells it what the server does.
func (st *state) encodings(list setEncodings) {
	st.known = make(map[int32]bool, len(list))
	for _, e := range list {
		st.known[e] = true
	}
	st.kind = encRaw
	if i := slices.IndexFunc(list, func(e int32) bool { return e == encTight || e == encZRLE || e == encRaw }); i >= 0 {
		st.kind = list[i]
	}
	if st.told {
		return
	}
	st.told = true
	if st.known[encFence] {
		st.answers = append(st.answers, appendFence(fenceRequest, nil))
	}
	if st.known[encContinuous] {
		st.answers = append(st.answers, []byte{msgContinuous})
	}
}

// act hands events on. Of moves of the pointer that wait, the last alone counts.
func (s *session) act(ctx context.Context) {
	var held message // taken too early
	for {
		m := held
		held = nil
		if m == nil {
			select {
			case m = <-s.events:
			case <-ctx.Done():
				return
			}
		}
		for held == nil {
			next := s.waiting()
			if next == nil {
				break
			}
			if moves(m, next) {
				m = next
			} else {
				held = next
			}
		}
		if err := s.event(ctx, m); err != nil && ctx.Err() == nil {
			s.change(func(st *state) { st.bell = true })
		}
	}
}

// waiting is an event that has come already.
func (s *session) waiting() message {
	select {
	case m := <-s.events:
		return m
	default:
		return nil
	}
}

// moves says whether two events move the pointer and do nothing else.
func moves(a, b message) bool {
	p, ok := a.(pointerEvent)
	q, also := b.(pointerEvent)
	return ok && also && p.buttons == q.buttons
}

// event hands on one event.
func (s *session) event(ctx context.Context, m message) error {
	s.change(func(st *state) { st.acted = time.Now() })
	switch m := m.(type) {
	case keyEvent:
		if s.cfg.Input != nil {
			return s.cfg.Input.Key(ctx, m.key, m.down)
		}
	case pointerEvent:
		if s.cfg.Input == nil {
			return nil
		}
		err := s.cfg.Input.Pointer(ctx, m.at.X, m.at.Y, m.buttons)
		if errors.Is(err, desktop.ErrOutside) { // the screen has become smaller
			return nil
		}
		return err
	case cutText:
		if s.cfg.Paste != nil {
			return s.cfg.Paste(ctx, m.text)
		}
	case setDesktopSize:
		s.resize(ctx, m.size)
	}
	return nil
}

// Answers to a change of size.
const (
	sizeByThis     = 1
	sizeDone       = 0
	sizeProhibited = 1
	sizeImpossible = 3
)

func (s *session) resize(ctx context.Context, size image.Point) {
	status := byte(sizeProhibited)
	if s.cfg.Resize != nil {
		status = sizeDone
		if s.cfg.Resize(ctx, size) != nil {
			status = sizeImpossible
		}
	}
	s.change(func(st *state) { st.resized = []byte{sizeByThis, status} })
}
