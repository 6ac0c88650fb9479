package rtc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

const (
	clockRate = 90000
	mtu       = 1200 // of a packet without what encrypts it, in bytes
)

// Pacing: packets go out in bursts, at a rate above what the way carries, so that a
// picture does not fill the queues on it.
const (
	burst      = 10      // packets
	paceFactor = 5       // half the factor over the estimate
	leastPace  = 500_000 // bit/s
	adaptGap   = 200 * time.Millisecond
)

// run sends pictures from the time that there is a way until the viewer leaves.
func (p *Peer) run() {
	err := p.send()
	if err == nil {
		err = errors.New("ended")
	}
	p.cancel(err)
}

func (p *Peer) send() error {
	timer := time.NewTimer(connectLimit)
	defer timer.Stop()
	select {
	case <-p.connected:
	case <-timer.C:
		return errors.New("no way to the viewer was found")
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	v, err := p.watch.Stream.Watch(p.ctx, stream.Want{Codec: p.codec})
	if err != nil {
		return err
	}
	defer v.Close()
	p.mu.Lock()
	p.viewer = v
	p.mu.Unlock()
	p.beside(func() { p.adapt(v) })
	var payloader rtp.Payloader = &codecs.VP8Payloader{EnablePictureID: true}
	if p.codec == video.VP9 {
		payloader = &codecs.VP9Payloader{}
	}
	out := rtp.NewPacketizer(mtu, 0, 0, payloader, rtp.NewRandomSequencer(), clockRate)
	delay := p.extension(playoutDelay)
	var last time.Time
	for {
		f, err := v.Next(p.ctx)
		if err != nil {
			return err
		}
		if !last.IsZero() {
			out.SkipSamples(uint32(f.At.Sub(last) * clockRate / time.Second))
		}
		last = f.At
		if err := p.write(out.Packetize(f.Data, 0), delay, f.Key); err != nil {
			return err
		}
		p.mu.Lock()
		p.stats.Level, p.stats.Encode = f.Level, f.Took
		p.stats.Frames++
		p.stats.Bytes += uint64(len(f.Data))
		if f.Key {
			p.stats.Keys++
		}
		p.mu.Unlock()
	}
}

// write sends the packets of a picture.
func (p *Peer) write(packets []*rtp.Packet, delay uint8, key bool) error {
	for i, k := range packets {
		if delay != 0 {
			if err := k.SetExtension(delay, []byte{0, 0, 0}); err != nil {
				return fmt.Errorf("send a picture: %w", err)
			}
		}
		if err := p.track.WriteRTP(k); err != nil {
			return fmt.Errorf("send a picture: %w", err)
		}
		if i%burst == burst-1 && i < len(packets)-1 {
			rate := max(p.estimate.GetTargetBitrate()*paceFactor/2, leastPace)
			select {
			case <-time.After(burst * mtu * 8 * time.Second / time.Duration(rate)):
			case <-p.ctx.Done():
				return context.Cause(p.ctx)
			}
		}
	}
	if len(packets) > 0 {
		p.mu.Lock()
		p.trail.sent(packets[len(packets)-1].SequenceNumber, key, time.Now())
		p.mu.Unlock()
	}
	return nil
}

// extension is the number that was agreed on for a header extension; 0: none was.
func (p *Peer) extension(uri string) uint8 {
	for _, x := range p.sender.GetParameters().HeaderExtensions {
		if x.URI == uri {
			return uint8(x.ID)
		}
	}
	return 0
}

// adapt chooses the level by what the way carries.
func (p *Peer) adapt(v *stream.Viewer) {
	tick := time.NewTicker(adaptGap)
	defer tick.Stop()
	var l stream.Ladder
	for {
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
		w := stream.Way{Kbps: p.estimate.GetTargetBitrate() / 1000, Dropped: v.Dropped()}
		p.mu.Lock()
		w.Late = p.trail.late(time.Now())
		p.stats.Kbps, p.stats.Dropped = w.Kbps, w.Dropped
		p.mu.Unlock()
		v.SetBitrate(w.Kbps)
		if level := l.Step(time.Now(), w); level != v.Level() {
			p.log.Debug("viewer changes level", "level", level, "kbps", w.Kbps, "late", w.Late, "dropped", w.Dropped)
			if err := v.SetLevel(p.ctx, level); err != nil {
				return // the stream has ended, and the viewer does
			}
		}
	}
}

// readReports hears of lost pictures and of those that arrived.
func (p *Peer) readReports() {
	for {
		list, _, err := p.sender.ReadRTCP()
		if err != nil {
			return // the connection has ended
		}
		for _, r := range list {
			switch r := r.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				p.requestKey()
			case *rtcp.ReceiverReport:
				for _, b := range r.Reports {
					p.reported(b)
				}
			}
		}
	}
}

// reported hears what has come to the viewer.
func (p *Peer) reported(r rtcp.ReceptionReport) {
	p.mu.Lock()
	arrived, v := p.trail.reported(uint16(r.LastSequenceNumber), r.FractionLost), p.viewer
	p.mu.Unlock()
	if arrived && v != nil {
		v.Arrived()
	}
}

// attribute finds one in a description.
func attribute(d *webrtc.SessionDescription, name string) string {
	if d == nil {
		return ""
	}
	for line := range strings.Lines(d.SDP) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "a="+name+":"); ok {
			return v
		}
	}
	return ""
}
