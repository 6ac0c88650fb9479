package watch

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// body reads a body of a type.
func body(r *http.Request, want string) (string, error) {
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != want {
		return "", status(http.StatusUnsupportedMediaType, api.Errorf(api.CodeInvalid, "Content-Type: want %s", want))
	}
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// share lets a page of an origin that the gate has let in read the answer.
func share(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Location, ETag, Link, Accept-Patch")
	}
}

// preflight answers what a page may send.
func preflight(methods string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		share(w, r)
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, "+api.HeaderHolder)
		h.Set("Access-Control-Max-Age", "600")
		if methods == http.MethodPost {
			h.Set("Accept-Post", mimeSDP)
		} else {
			h.Set("Accept-Patch", mimeFragment)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// offer begins a viewer.
func (d *desk) offer(w http.ResponseWriter, r *http.Request) error {
	share(w, r)
	e, err := d.endpoint()
	if err != nil {
		return err
	}
	sdp, err := body(r, mimeSDP)
	if err != nil {
		return err
	}
	v, err := d.join(r, "webrtc")
	if err != nil {
		return err
	}
	ctx, end, err := d.routes.Hold(r)
	if err != nil {
		v.Leave()
		return err
	}
	gone := func() {
		end()
		v.Leave()
	}
	peer, answer, err := e.Connect(ctx, sdp, rtc.Watch{Stream: v.Stream(), Control: v.Control(), Owner: owner(r), Gone: gone})
	if err != nil {
		gone()
		return faultOf(err)
	}
	h := w.Header()
	for _, s := range e.Servers(peer.ID()[:8]) {
		h.Add("Link", link(s))
	}
	h.Set("Content-Type", mimeSDP)
	h.Set("Location", r.URL.Path+"/"+peer.ID())
	h.Set("ETag", etag(peer))
	h.Set("Accept-Patch", mimeFragment)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusCreated)
	_, err = io.WriteString(w, answer)
	return err
}

// link is a server as WHEP writes it.
func link(s rtc.Server) string {
	if s.Username == "" {
		return fmt.Sprintf("<%s>; rel=%q", s.URL, "ice-server")
	}
	return fmt.Sprintf("<%s>; rel=%q; username=%q; credential=%q; credential-type=%q", s.URL, "ice-server", s.Username, s.Credential, "password")
}

// etag names a viewer's session of ICE, of which it has one.
func etag(p *rtc.Peer) string { return `"` + p.Ufrag() + `"` }

// viewer finds the one that a request is about.
func (d *desk) viewer(r *http.Request) (*rtc.Peer, error) {
	e, err := d.endpoint()
	if err != nil {
		return nil, err
	}
	p, ok := e.Peer(r.PathValue("viewer"))
	if !ok || p.Owner() != owner(r) {
		return nil, api.Errorf(api.CodeNotFound, "no such viewer, or it has left")
	}
	return p, nil
}

// trickle adds addresses of a viewer.
func (d *desk) trickle(w http.ResponseWriter, r *http.Request) error {
	share(w, r)
	p, err := d.viewer(r)
	if err != nil {
		return err
	}
	if m := r.Header.Get("If-Match"); m != "" && m != "*" && m != etag(p) {
		return status(http.StatusPreconditionFailed, api.Errorf(api.CodePrecondition, "If-Match names another session of ICE"))
	}
	text, err := body(r, mimeFragment)
	if err != nil {
		return err
	}
	f, err := parseFragment(text)
	if err != nil {
		return err
	}
	if f.ufrag != "" && f.ufrag != p.Ufrag() {
		e := api.Errorf(api.CodeUnsupported, "ICE is not restarted here")
		e.Hint = "make a new viewer"
		return status(http.StatusUnprocessableEntity, e)
	}
	for _, c := range f.candidates {
		if err := p.Trickle(c.text, c.mid, c.line); err != nil {
			return faultOf(err)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// status tells how a viewer is doing.
func (d *desk) status(w http.ResponseWriter, r *http.Request) error {
	share(w, r)
	p, err := d.viewer(r)
	if err != nil {
		return err
	}
	s := p.Stats()
	out := api.ViewerStatus{
		Connected: s.Connected, Codec: string(s.Codec), Level: s.Level.String(), Frames: s.Frames, Keys: s.Keys, Dropped: s.Dropped,
		Bytes: s.Bytes, Kbps: s.Kbps, EncodeUS: s.Encode.Microseconds(), Ways: []api.ViewerWay{},
	}
	for _, v := range p.Pairs() {
		out.Ways = append(out.Ways, api.ViewerWay{
			Protocol: v.Protocol, Host: v.Local, HostKind: v.LocalKind, Viewer: v.Remote, ViewerKind: v.RemoteKind, State: v.State,
			InUse: v.Nominated, Asked: v.Asked, Replied: v.Replied, Heard: v.Heard, RoundTripUS: v.RoundTrip.Microseconds(),
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	return route.WriteJSON(w, http.StatusOK, out)
}

// leave ends a viewer.
func (d *desk) leave(w http.ResponseWriter, r *http.Request) error {
	share(w, r)
	p, err := d.viewer(r)
	if err != nil {
		return err
	}
	p.Close()
	w.WriteHeader(http.StatusOK)
	return nil
}

// fragment is what a client says of its addresses (RFC 8840, 9).
type fragment struct {
	ufrag      string
	candidates []candidate
}

// candidate is one address.
type candidate struct {
	text string // candidate:…
	mid  string
	line uint16
}

// maxCandidates bounds the addresses of one fragment.
const maxCandidates = 64

// parseFragment reads one.
func parseFragment(text string) (fragment, error) {
	var f fragment
	bad := func(what string) error {
		return status(http.StatusBadRequest, api.Errorf(api.CodeInvalid, "malformed fragment: %s", what))
	}
	media, mid := 0, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch name, value, _ := strings.Cut(line, ":"); {
		case strings.HasPrefix(line, "m="):
			media++
			mid = ""
		case name == "a=mid":
			mid = value
		case name == "a=ice-ufrag":
			if f.ufrag != "" && f.ufrag != value {
				return fragment{}, bad("it has two names of ICE")
			}
			f.ufrag = value
		case name == "a=candidate":
			if value == "" || media > 1<<15 {
				return fragment{}, bad("an empty candidate")
			}
			if len(f.candidates) == maxCandidates {
				return fragment{}, bad("too many candidates")
			}
			f.candidates = append(f.candidates, candidate{text: "candidate:" + value, mid: mid, line: uint16(max(media-1, 0))})
		}
	}
	if f.ufrag == "" && len(f.candidates) == 0 && !strings.Contains(text, "a=end-of-candidates") {
		return fragment{}, bad("it says nothing of ICE")
	}
	return f, nil
}
