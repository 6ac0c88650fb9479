package rtc

import (
	"errors"

	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Labels of data channels.
const (
	labelCursor = "cursor"
	labelMoves  = "moves"
	labelInput  = "input"
)

// opened takes a channel of the viewer by its label; others are closed.
func (p *Peer) opened(d *webrtc.DataChannel) {
	switch d.Label() {
	case labelCursor:
		d.OnOpen(func() { p.follow(d) })
	case labelMoves:
		d.OnMessage(func(m webrtc.DataChannelMessage) { p.heard(d, m, false) })
	case labelInput:
		p.mu.Lock()
		p.input = d
		p.mu.Unlock()
		ordered := d.Ordered() && d.MaxRetransmits() == nil && d.MaxPacketLifeTime() == nil
		d.OnMessage(func(m webrtc.DataChannelMessage) { p.heard(d, m, ordered) })
	default:
		_ = d.Close() // nothing waits for it
	}
}

// heard plays a message. Who sends what is none loses its channel.
func (p *Peer) heard(d *webrtc.DataChannel, m webrtc.DataChannelMessage, ordered bool) {
	if err := p.hand.Take(p.ctx, m.Data, ordered); err != nil {
		p.log.Debug("viewer sent what is no message", "channel", d.Label(), "error", err)
		_ = d.Close() // it may be gone already
	}
}

// answer tells the viewer about its input.
func (p *Peer) answer(b []byte) {
	p.mu.Lock()
	d := p.input
	p.mu.Unlock()
	if d != nil && d.BufferedAmount() < answerMost {
		_ = d.Send(b) // who is gone needs no answer
	}
}

// answerMost bounds the answers that wait for a viewer, in bytes.
const answerMost = 64 << 10

// follow tells the viewer of the pointer as long as the channel is open.
func (p *Peer) follow(d *webrtc.DataChannel) {
	p.beside(func() {
		var pointers Pointers
		_ = p.watch.Stream.Cursors(p.ctx, func(c desktop.Cursor) error { // it ends with the viewer
			if d.ReadyState() != webrtc.DataChannelStateOpen {
				return errors.New("closed")
			}
			if d.BufferedAmount() > answerMost {
				return nil // a later one tells
			}
			list, err := pointers.Tell(c)
			for _, b := range list {
				err = errors.Join(err, d.Send(b))
			}
			return err
		})
	})
}
