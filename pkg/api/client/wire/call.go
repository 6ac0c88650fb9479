package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/fault"
)

// Call is one request, described so that it can be sent more than once.
type Call struct {
	Method string // default GET
	Path   string // escaped
	Query  url.Values
	Header http.Header
	JSON   any       // JSON body
	Body   io.Reader // raw body instead; such a call is never repeated
	Size   int64     // of body; 0: not known
	Keyed  bool      // carries an Idempotency-Key
	Same   bool      // done twice it is as good as done once
}

// Seg escapes one segment of a path.
func Seg(s string) string { return url.PathEscape(s) }

// Fetch sends a call and decodes its JSON answer.
func Fetch[T any](ctx context.Context, s *Server, k Call) (T, error) {
	var out T
	resp, err := s.Open(ctx, k)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, s.Fault(ctx, fmt.Errorf("decode answer of %s: %w", k.Path, err))
	}
	return out, nil
}

// Run sends a call whose answer has no body of interest.
func (s *Server) Run(ctx context.Context, k Call) error {
	resp, err := s.Open(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // so that the connection is used again
	return nil
}

// Open sends a call, again where that is safe, and returns the answer when its
// status is below 400. The caller closes the body.
func (s *Server) Open(ctx context.Context, k Call) (*http.Response, error) {
	if k.Method == "" {
		k.Method = http.MethodGet
	}
	var raw []byte
	if k.JSON != nil {
		var err error
		if raw, err = json.Marshal(k.JSON); err != nil {
			return nil, fmt.Errorf("encode %s: %w", k.Path, err)
		}
	}
	var key string
	if k.Keyed {
		key = rand.Text()
	}
	for attempt := 0; ; attempt++ {
		req, err := s.request(ctx, k, raw, key)
		if err != nil {
			return nil, err
		}
		resp, again, err := s.send(req)
		if err == nil {
			return resp, nil
		}
		if !k.repeatable(again) || s.rest(ctx, attempt, again.After) != nil {
			return nil, err
		}
	}
}

// repeatable says whether a call that failed may be sent again. What was refused
// for lack of room was not begun: it may, whatever it is, as long as it can be.
func (k *Call) repeatable(again fault.Again) bool {
	if k.Body != nil || !again.May {
		return false
	}
	return again.Untouched || k.Keyed || k.Same || k.Method == http.MethodGet || k.Method == http.MethodHead
}

// send sends one request.
func (s *Server) send(req *http.Request) (*http.Response, fault.Again, error) {
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, fault.Again{May: fault.Broken(err)}, s.Fault(req.Context(), err)
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		resp.Body = &ending{ReadCloser: resp.Body, resp: resp}
		return resp, fault.Again{}, nil
	}
	defer resp.Body.Close()
	problem, ours := fault.Problem(resp)
	return nil, fault.After(resp, problem, ours), problem
}

func (s *Server) request(ctx context.Context, k Call, raw []byte, key string) (*http.Request, error) {
	body := k.Body
	if raw != nil {
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, k.Method, s.url(k.Path, k.Query), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if raw == nil && k.Size > 0 {
		req.ContentLength = k.Size
	}
	s.dress(req.Header)
	req.Header.Set("TE", "trailers")
	maps.Copy(req.Header, k.Header)
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(api.HeaderIdempotencyKey, key)
	}
	return req, nil
}

func (s *Server) url(path string, query url.Values) string {
	u := s.Base.String() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// dress sets the headers that every request carries.
func (s *Server) dress(h http.Header) {
	h.Set("User-Agent", s.UserAgent)
	if s.Token != "" {
		h.Set("Authorization", "Bearer "+s.Token)
	}
	if s.Holder != "" {
		h.Set(api.HeaderHolder, s.Holder)
	}
	if s.Epoch != 0 {
		h.Set(api.HeaderEpoch, strconv.FormatUint(s.Epoch, 10))
	}
}

// ending is the body of an answer that may say at its end that it failed.
type ending struct {
	io.ReadCloser

	resp *http.Response
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	said := e.resp.Trailer.Get(api.HeaderProblem)
	if said == "" {
		return n, err
	}
	var problem api.Error
	if json.Unmarshal([]byte(said), &problem) != nil {
		return n, io.ErrUnexpectedEOF
	}
	return n, &problem
}

// Fault gives an error of the transport a code.
func (s *Server) Fault(ctx context.Context, err error) error {
	return fault.Of(ctx, s.Base.Host, err)
}
