package rtc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/nack"
	"github.com/pion/interceptor/pkg/report"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// Errors of offers.
var (
	ErrOffer = errors.New("malformed offer")
	ErrCodec = errors.New("no codec fits")
)

// playoutDelay asks the viewer to show pictures as they come.
const playoutDelay = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"

// Bitrates of the estimate, in bit/s: where it begins, and its bounds.
const (
	firstEstimate = 3_000_000
	leastEstimate = 100_000
	mostEstimate  = 20_000_000
)

// choose picks the best codec that an offer takes: of those in have, which are in
// order.
func choose(offer string, have []video.Codec) (video.Codec, error) {
	var s sdp.SessionDescription
	if err := s.UnmarshalString(offer); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	offered, asked := map[video.Codec]bool{}, false
	for _, m := range s.MediaDescriptions {
		if m.MediaName.Media == "video" {
			asked = true
			collect(m, offered)
		}
	}
	if !asked {
		return "", fmt.Errorf("%w: it asks for no video", ErrOffer)
	}
	for _, c := range have {
		if offered[c] {
			return c, nil
		}
	}
	return "", fmt.Errorf("%w: this host sends VP9 (profile 0) or VP8", ErrCodec)
}

// collect adds the codecs that a description of video offers.
func collect(m *sdp.MediaDescription, offered map[video.Codec]bool) {
	second := map[string]bool{} // payload types of VP9 in other profiles than 0
	for _, a := range m.Attributes {
		if pt, params, ok := strings.Cut(a.Value, " "); ok && a.Key == "fmtp" &&
			strings.Contains(params, "profile-id=") && !strings.Contains(params, "profile-id=0") {
			second[pt] = true
		}
	}
	for _, a := range m.Attributes {
		pt, name, ok := strings.Cut(a.Value, " ")
		if !ok || a.Key != "rtpmap" {
			continue
		}
		switch name, _, _ := strings.Cut(strings.ToUpper(name), "/"); {
		case name == "VP9" && !second[pt]:
			offered[video.VP9] = true
		case name == "VP8":
			offered[video.VP8] = true
		}
	}
}

// capability is how a codec is written in SDP.
func capability(c video.Codec) webrtc.RTPCodecCapability {
	v := webrtc.RTPCodecCapability{
		MimeType: webrtc.MimeTypeVP8, ClockRate: clockRate,
		RTCPFeedback: []webrtc.RTCPFeedback{
			{Type: "nack"}, {Type: "nack", Parameter: "pli"}, {Type: "ccm", Parameter: "fir"}, {Type: "transport-cc"}, {Type: "goog-remb"},
		},
	}
	if c == video.VP9 {
		v.MimeType, v.SDPFmtpLine = webrtc.MimeTypeVP9, "profile-id=0"
	}
	return v
}

// engine makes what one connection is made with: it sends one codec, and found is
// given the estimator of its bandwidth.
func (e *Endpoint) engine(c video.Codec, found func(cc.BandwidthEstimator)) (*webrtc.API, error) {
	m := &webrtc.MediaEngine{}
	const video, rtx = 96, 97
	errs := []error{
		m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: capability(c), PayloadType: video}, webrtc.RTPCodecTypeVideo),
		m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: webrtc.RTPCodecCapability{
			MimeType: webrtc.MimeTypeRTX, ClockRate: clockRate, SDPFmtpLine: fmt.Sprintf("apt=%d", video),
		}, PayloadType: rtx}, webrtc.RTPCodecTypeVideo),
		m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: playoutDelay}, webrtc.RTPCodecTypeVideo),
		m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: sdp.TransportCCURI}, webrtc.RTPCodecTypeVideo),
	}
	estimate, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
		return gcc.NewSendSideBWE(
			gcc.SendSideBWEInitialBitrate(firstEstimate), gcc.SendSideBWEMinBitrate(leastEstimate), gcc.SendSideBWEMaxBitrate(mostEstimate),
			gcc.SendSideBWEPacer(gcc.NewNoOpPacer()), // the peer paces: it knows what may be dropped
		)
	})
	errs = append(errs, err)
	resend, err := nack.NewResponderInterceptor(nack.ResponderSize(4096))
	errs = append(errs, err)
	reports, err := report.NewSenderInterceptor()
	errs = append(errs, err)
	number, err := twcc.NewHeaderExtensionInterceptor()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("prepare a connection: %w", err)
	}
	estimate.OnNewPeerConnection(func(_ string, b cc.BandwidthEstimator) { found(b) })
	registry := &interceptor.Registry{}
	for _, f := range []interceptor.Factory{estimate, resend, reports, number} {
		registry.Add(f)
	}
	return webrtc.NewAPI(webrtc.WithMediaEngine(m), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(e.settings)), nil
}
