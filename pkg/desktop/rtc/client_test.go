//go:build cgo

package rtc_test

import (
	"context"
	"errors"
	"image"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media/samplebuilder"

	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// world is an endpoint with a stream of a screen that a test draws on.
type world struct {
	source   *videotest.Source
	stream   *stream.Stream
	endpoint *rtc.Endpoint
}

func newWorld(t *testing.T, cfg rtc.Config) *world {
	t.Helper()
	w := &world{source: videotest.NewSource(videotest.Screen(640, 400, 1))}
	var err error
	if w.stream, err = stream.New(stream.Config{Source: w.source}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := w.stream.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	cfg.Listen = "127.0.0.1:0"
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.endpoint, err = rtc.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.endpoint.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client is a viewer that is not ours: pion with its defaults.
type client struct {
	t        *testing.T
	codec    video.Codec
	pc       *webrtc.PeerConnection
	peer     *rtc.Peer
	channels map[string]*webrtc.DataChannel

	mu       sync.Mutex
	ssrc     uint32
	pictures []picture
	changed  chan struct{}
}

// picture is one that was decoded.
type picture struct{ img *image.RGBA }

// options of a client.
type options struct {
	codec   video.Codec // default VP9
	control rtc.Control
	labels  []string                  // of data channels
	offer   func(offer string) string // changes the offer on its way
	answer  func(answer string) string
	config  webrtc.Configuration
	hasty   bool // waits for no packet that was lost, and asks for a key instead
}

func (w *world) join(t *testing.T, o options) *client {
	t.Helper()
	if o.codec == "" {
		o.codec = video.VP9
	}
	m := &webrtc.MediaEngine{}
	mime := map[video.Codec]string{video.VP8: webrtc.MimeTypeVP8, video.VP9: webrtc.MimeTypeVP9}[o.codec]
	if err := m.RegisterCodec(webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: mime, ClockRate: 90000, RTCPFeedback: []webrtc.RTCPFeedback{{Type: "nack"}, {Type: "nack", Parameter: "pli"}}},
		PayloadType:        120,
	}, webrtc.RTPCodecTypeVideo); err != nil {
		t.Fatal(err)
	}
	registry := &interceptor.Registry{}
	prepare, late := webrtc.RegisterDefaultInterceptors, uint16(200)
	if o.hasty {
		prepare, late = func(m *webrtc.MediaEngine, r *interceptor.Registry) error {
			return errors.Join(webrtc.ConfigureRTCPReports(r), webrtc.ConfigureTWCCSender(m, r))
		}, 20
	}
	if err := prepare(m, registry); err != nil {
		t.Fatal(err)
	}
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeTCP4}) // it dials TCP as browsers do
	api := webrtc.NewAPI(webrtc.WithMediaEngine(m), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(s))
	pc, err := api.NewPeerConnection(o.config)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, codec: o.codec, pc: pc, channels: map[string]*webrtc.DataChannel{}, changed: make(chan struct{})}
	decoder := videotest.NewDecoder(t, o.codec) // ends after the reading
	var reading sync.WaitGroup
	t.Cleanup(func() {
		if err := pc.Close(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		reading.Go(func() { c.read(track, decoder, late) })
	})
	if _, err := pc.AddTransceiverFromKind(webrtc.RTPCodecTypeVideo, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	for _, label := range o.labels {
		c.open(label)
	}
	c.negotiate(w, o)
	return c
}

func (c *client) open(label string) {
	c.t.Helper()
	init := &webrtc.DataChannelInit{}
	if label == "moves" {
		unordered, none := false, uint16(0)
		init.Ordered, init.MaxRetransmits = &unordered, &none
	}
	d, err := c.pc.CreateDataChannel(label, init)
	if err != nil {
		c.t.Fatal(err)
	}
	c.channels[label] = d
}

func (c *client) negotiate(w *world, o options) {
	c.t.Helper()
	offer, err := c.pc.CreateOffer(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(c.pc)
	if err := c.pc.SetLocalDescription(offer); err != nil {
		c.t.Fatal(err)
	}
	<-gathered
	sent := c.pc.LocalDescription().SDP
	if o.offer != nil {
		sent = o.offer(sent)
	}
	peer, answer, err := w.endpoint.Connect(c.t.Context(), sent, rtc.Watch{Stream: w.stream, Control: o.control})
	if err != nil {
		c.t.Fatal(err)
	}
	c.peer = peer
	if o.answer != nil {
		answer = o.answer(answer)
	}
	if err := c.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		c.t.Fatal(err)
	}
}

// read decodes what comes until the connection ends.
func (c *client) read(track *webrtc.TrackRemote, dec *videotest.Decoder, late uint16) {
	c.mu.Lock()
	c.ssrc = uint32(track.SSRC())
	c.mu.Unlock()
	var depacketizer rtp.Depacketizer = &codecs.VP8Packet{}
	if c.codec == video.VP9 {
		depacketizer = &codecs.VP9Packet{}
	}
	builder := samplebuilder.New(late, depacketizer, 90000)
	for {
		p, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		builder.Push(p)
		for s := builder.Pop(); s != nil; s = builder.Pop() {
			if s.PrevDroppedPackets > 0 {
				c.lost()
			}
			img, err := dec.Decode(s.Data, 0, 0)
			if err != nil {
				c.lost()
				continue
			}
			c.mu.Lock()
			c.pictures = append(c.pictures, picture{img})
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
		}
	}
}

// lost asks for a key.
func (c *client) lost() {
	c.mu.Lock()
	ssrc := c.ssrc
	c.mu.Unlock()
	_ = c.pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: ssrc}}) // the connection may have ended
}

// patience is how long a test waits for what must come, on a host that is busy with
// other tests.
const patience = time.Minute

// until waits for a picture that is as wanted, and returns it.
func (c *client) until(what string, ok func(picture) bool) picture {
	c.t.Helper()
	end := time.After(patience)
	seen := 0
	for {
		c.mu.Lock()
		list, changed := c.pictures[seen:], c.changed
		c.mu.Unlock()
		for _, p := range list {
			if ok(p) {
				return p
			}
		}
		seen += len(list)
		select {
		case <-changed:
		case <-end:
			c.t.Fatalf("%d pictures within %s, none %s", seen, patience, what)
		}
	}
}

// like waits for a picture that is near to what the screen shows, of either level.
func (c *client) like(img *image.RGBA, psnr float64) picture {
	c.t.Helper()
	small := half(img)
	return c.until("like the screen", func(p picture) bool {
		return p.img.Rect == img.Rect && videotest.PSNR(p.img, img) >= psnr || p.img.Rect == small.Rect && videotest.PSNR(p.img, small) >= psnr
	})
}

// half is an image at half its size.
func half(img *image.RGBA) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, img.Rect.Dx()/2, img.Rect.Dy()/2))
	for i := range out.Pix {
		x, y := i%out.Stride, i/out.Stride
		at := 2*y*img.Stride + x/4*8 + x%4
		out.Pix[i] = byte((int(img.Pix[at]) + int(img.Pix[at+4]) + int(img.Pix[at+img.Stride]) + int(img.Pix[at+img.Stride+4])) / 4)
	}
	return out
}

// more waits for so many further pictures.
func (c *client) more(n int) {
	c.t.Helper()
	c.mu.Lock()
	n += len(c.pictures)
	c.mu.Unlock()
	seen := 0
	c.until("the last", func(picture) bool { seen++; return seen == n })
}

// without removes lines from a description.
func without(words ...string) func(string) string {
	return func(desc string) string {
		var keep []string
		for line := range strings.Lines(desc) {
			if !strings.HasPrefix(line, "a=candidate:") || !containsAll(strings.ToLower(line), words) {
				keep = append(keep, line)
			}
		}
		return strings.Join(keep, "")
	}
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}
