package rtc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// Times of a connection.
const (
	connectLimit = 30 * time.Second // until a way is found
	gatherLimit  = 2 * time.Second  // for addresses of our own
)

// Watch says what a viewer watches.
type Watch struct {
	Stream *stream.Stream
	// Control takes its input. Nil: it may only look.
	Control Control
	// Owner is a word for whose viewer it is, which Peer.Owner repeats.
	Owner string
	// Gone is called once when the viewer has left; not when Connect fails. May be
	// nil.
	Gone func()
}

// Peer is one viewer.
type Peer struct {
	id       string
	endpoint *Endpoint
	watch    Watch
	codec    video.Codec
	pc       *webrtc.PeerConnection
	track    *webrtc.TrackLocalStaticRTP
	sender   *webrtc.RTPSender
	estimate cc.BandwidthEstimator
	hand     *Hand
	log      *slog.Logger

	ctx       context.Context // of the viewer; ends with it
	cancel    context.CancelCauseFunc
	connected chan struct{}
	up        sync.Once // closes connected
	all       sync.WaitGroup
	done      chan struct{}

	mu     sync.Mutex
	stats  Stats               // guarded by mu
	input  *webrtc.DataChannel // guarded by mu
	viewer *stream.Viewer      // guarded by mu; nil until there is a way
	trail  trail               // guarded by mu
	over   bool                // guarded by mu; nothing begins any more
}

// Stats are a viewer's figures.
type Stats struct {
	Connected bool // there is a way
	Codec     video.Codec
	Level     stream.Level
	Frames    uint64
	Bytes     uint64
	Dropped   uint64        // pictures lost since the way was too slow
	Kbps      int           // what the way carries, by the estimate
	Encode    time.Duration // of the last picture
	Keys      uint64
}

// Connect answers a viewer's offer. The viewer ends with ctx, with its connection,
// or by Close. ErrCodec says that it takes nothing that this host sends.
func (e *Endpoint) Connect(ctx context.Context, offer string, w Watch) (*Peer, string, error) {
	codec, err := choose(offer, video.Codecs())
	if err != nil {
		return nil, "", err
	}
	p := &Peer{id: NewID(), endpoint: e, watch: w, codec: codec, connected: make(chan struct{}), done: make(chan struct{})}
	p.log = e.cfg.Logger.With("viewer", p.id[:6], "codec", codec)
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.hand = NewHand(w.Control, p.id, p.requestKey, p.answer)
	answer, err := p.negotiate(offer)
	if err == nil {
		err = e.join(p)
	}
	if err != nil {
		p.cancel(err)
		if p.pc != nil {
			err = errors.Join(err, p.pc.Close())
		}
		return nil, "", err
	}
	p.all.Go(p.run)
	p.all.Go(func() { p.hand.Run(p.ctx) })
	p.all.Go(p.readReports)
	go p.finish()
	return p, answer, nil
}

// finish waits for the viewer's end and cleans up after it.
func (p *Peer) finish() {
	<-p.ctx.Done()
	if err := p.pc.Close(); err != nil {
		p.log.Debug("viewer did not close in order", "error", err)
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.all.Wait()
	p.endpoint.leave(p)
	p.log.Debug("viewer has left", "reason", context.Cause(p.ctx))
	close(p.done)
	if p.watch.Gone != nil {
		p.watch.Gone()
	}
}

// beside runs fn as a part of the viewer; one that is over runs nothing.
func (p *Peer) beside(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.all.Go(fn)
	}
}

// ID names the viewer; who knows it may end its watching.
func (p *Peer) ID() string { return p.id }

// Owner is Watch.Owner.
func (p *Peer) Owner() string { return p.watch.Owner }

// Done is closed when the viewer has left and nothing of it is left.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Close ends the viewer, and returns when nothing of it is left.
func (p *Peer) Close() {
	p.cancel(errors.New("closed"))
	<-p.done
}

// Stats are the viewer's figures as they are now.
func (p *Peer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Codec = p.codec
	select {
	case <-p.connected:
		s.Connected = true
	default:
	}
	return s
}

// Trickle adds an address of the viewer, as a=candidate of SDP has it; empty: there
// are no more.
func (p *Peer) Trickle(candidate string, mid string, line uint16) error {
	if candidate == "" {
		return nil
	}
	c := webrtc.ICECandidateInit{Candidate: candidate, SDPMid: &mid, SDPMLineIndex: &line}
	if err := p.pc.AddICECandidate(c); err != nil {
		return fmt.Errorf("%w: %w", ErrOffer, err)
	}
	return nil
}

// Ufrag is the viewer's part of the credentials of ICE, which its fragments carry.
func (p *Peer) Ufrag() string { return attribute(p.pc.RemoteDescription(), "ice-ufrag") }

func (p *Peer) negotiate(offer string) (answer string, err error) {
	api, err := p.endpoint.engine(p.codec, func(b cc.BandwidthEstimator) { p.estimate = b })
	if err != nil {
		return "", err
	}
	if p.pc, err = api.NewPeerConnection(webrtc.Configuration{}); err != nil {
		return "", fmt.Errorf("answer a viewer: %w", err)
	}
	p.pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		switch s {
		case webrtc.PeerConnectionStateConnected:
			p.up.Do(func() { close(p.connected) })
		case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
			p.cancel(fmt.Errorf("connection %s", s))
		default: // it may recover
		}
	})
	p.pc.OnDataChannel(p.opened)
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	if p.track, err = webrtc.NewTrackLocalStaticRTP(capability(p.codec), "screen", "desktop"); err != nil {
		return "", fmt.Errorf("answer a viewer: %w", err)
	}
	if p.sender, err = p.pc.AddTrack(p.track); err != nil {
		return "", fmt.Errorf("answer a viewer: %w", err)
	}
	desc, err := p.pc.CreateAnswer(nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	gathered := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(desc); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	select {
	case <-gathered:
	case <-time.After(gatherLimit):
	case <-p.ctx.Done():
		return "", context.Cause(p.ctx)
	}
	return p.pc.LocalDescription().SDP, nil
}

// requestKey asks for a key once pictures flow.
func (p *Peer) requestKey() {
	p.mu.Lock()
	v := p.viewer
	p.mu.Unlock()
	if v != nil {
		v.RequestKey()
	}
}
