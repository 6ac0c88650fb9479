package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/miekg/dns"
)

// perTry bounds one upstream, so that a dead one leaves time for the next.
const perTry = 3 * time.Second

// serve answers one query.
func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, q *dns.Msg) {
	network := "tcp"
	if _, ok := w.RemoteAddr().(*net.UDPAddr); ok {
		network = "udp"
	}
	answer := s.answer(ctx, network, q)
	if network == "udp" {
		fit(answer, payload(q))
	}
	// A guest that has gone away is not our fault.
	_ = w.WriteMsg(answer)
}

func (s *Server) answer(ctx context.Context, network string, q *dns.Msg) *dns.Msg {
	switch {
	case s.cfg.Refuse:
		return status(q, dns.RcodeRefused)
	case len(q.Question) != 1:
		return status(q, dns.RcodeFormatError)
	case q.Question[0].Qtype == dns.TypeAXFR || q.Question[0].Qtype == dns.TypeIXFR:
		return status(q, dns.RcodeRefused)
	}
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
	default:
		return status(q, dns.RcodeServerFailure)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	answer, err := s.forward(ctx, network, q)
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, "dns query unanswered", slog.String("name", q.Question[0].Name), slog.Any("error", err))
		return status(q, dns.RcodeServerFailure)
	}
	answer.Id = q.Id
	return answer
}

func status(q *dns.Msg, rcode int) *dns.Msg { return new(dns.Msg).SetRcode(q, rcode) }

// forward asks the upstreams in order. A server that cannot or will not answer
// is passed over, unless no other does better.
func (s *Server) forward(ctx context.Context, network string, q *dns.Msg) (*dns.Msg, error) {
	upstreams, err := s.cfg.Upstreams()
	if err != nil {
		return nil, err
	}
	errs := []error{errors.New("no upstream answered")}
	var second *dns.Msg
	for _, to := range upstreams {
		r, err := ask(ctx, network, to, q)
		if err != nil {
			errs = append(errs, fmt.Errorf("ask %s: %w", to, err))
			continue
		}
		if r.Rcode != dns.RcodeServerFailure && r.Rcode != dns.RcodeRefused {
			return r, nil
		}
		second = r
	}
	if second != nil {
		return second, nil
	}
	return nil, errors.Join(errs...)
}

// ask sends the query under an id of our own, so that a guest cannot guess its
// way into another query's answer.
func ask(ctx context.Context, network, to string, q *dns.Msg) (*dns.Msg, error) {
	own := q.Copy()
	own.Id = dns.Id()
	c := dns.Client{Net: network, Timeout: perTry, UDPSize: dns.MaxMsgSize}
	r, _, err := c.ExchangeContext(ctx, own, to)
	if err != nil {
		return nil, err
	}
	if !r.Response || len(r.Question) != 1 || r.Question[0] != q.Question[0] {
		return nil, errors.New("the answer is for another question")
	}
	return r, nil
}

// payload is the size of a UDP answer that the asker takes, in bytes.
func payload(q *dns.Msg) int {
	if opt := q.IsEdns0(); opt != nil {
		return max(dns.MinMsgSize, int(opt.UDPSize()))
	}
	return dns.MinMsgSize
}

// fit cuts an answer to size and marks it when something was left out, here or
// before.
func fit(m *dns.Msg, size int) {
	if m.IsTsig() != nil {
		return // signed: not ours to cut
	}
	cut := m.Truncated
	m.Truncate(size)
	m.Truncated = m.Truncated || cut
}
