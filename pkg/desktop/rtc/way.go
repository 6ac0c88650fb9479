package rtc

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/pion/webrtc/v4"
)

// Pair is an address of ours with one of the viewer's, and what came of trying it.
type Pair struct {
	Protocol       string // udp or tcp
	Local, Remote  string // host:port
	LocalKind      string // host, srflx, prflx, relay
	RemoteKind     string
	State          string // waiting, in-progress, failed, succeeded
	Nominated      bool   // the viewer goes this way
	Asked, Replied uint64 // checks that we sent, and their answers
	Heard          uint64 // checks that came from there
	RoundTrip      time.Duration
}

// Pairs are the ways to the viewer that were tried: what there is to say when none
// works. The one that is gone comes first.
func (p *Peer) Pairs() []Pair {
	report := p.pc.GetStats()
	ends := map[string]webrtc.ICECandidateStats{}
	for _, s := range report {
		if c, ok := s.(webrtc.ICECandidateStats); ok {
			ends[c.ID] = c
		}
	}
	address := func(c webrtc.ICECandidateStats) string {
		return net.JoinHostPort(c.IP, strconv.Itoa(int(c.Port)))
	}
	var list []Pair
	for _, s := range report {
		v, ok := s.(webrtc.ICECandidatePairStats)
		if !ok {
			continue
		}
		local, remote := ends[v.LocalCandidateID], ends[v.RemoteCandidateID]
		list = append(list, Pair{
			Protocol: local.Protocol, Local: address(local), Remote: address(remote),
			LocalKind: local.CandidateType.String(), RemoteKind: remote.CandidateType.String(),
			State: string(v.State), Nominated: v.Nominated, Asked: v.RequestsSent, Replied: v.ResponsesReceived, Heard: v.RequestsReceived,
			RoundTrip: time.Duration(v.CurrentRoundTripTime * float64(time.Second)),
		})
	}
	slices.SortFunc(list, func(a, b Pair) int {
		if a.Nominated != b.Nominated {
			return map[bool]int{true: -1, false: 1}[a.Nominated]
		}
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote))
	})
	return list
}
