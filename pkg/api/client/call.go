package client

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

// call is one request, described so that it can be sent more than once.
type call struct {
	method string // default GET
	path   string // escaped
	query  url.Values
	header http.Header
	json   any       // JSON body
	body   io.Reader // raw body instead; such a call is never repeated
	size   int64     // of body; 0: not known
	keyed  bool      // carries an Idempotency-Key
	same   bool      // done twice it is as good as done once
}

// seg escapes one segment of a path.
func seg(s string) string { return url.PathEscape(s) }

// fetch sends a call and decodes its JSON answer.
func fetch[T any](ctx context.Context, c *Client, k call) (T, error) {
	var out T
	resp, err := c.open(ctx, k)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, c.fault(ctx, fmt.Errorf("decode answer of %s: %w", k.path, err))
	}
	return out, nil
}

// run sends a call whose answer has no body of interest.
func (c *Client) run(ctx context.Context, k call) error {
	resp, err := c.open(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // so that the connection is used again
	return nil
}

// open sends a call, again where that is safe, and returns the answer when its
// status is below 400. The caller closes the body.
func (c *Client) open(ctx context.Context, k call) (*http.Response, error) {
	if k.method == "" {
		k.method = http.MethodGet
	}
	var raw []byte
	if k.json != nil {
		var err error
		if raw, err = json.Marshal(k.json); err != nil {
			return nil, fmt.Errorf("encode %s: %w", k.path, err)
		}
	}
	var key string
	if k.keyed {
		key = rand.Text()
	}
	for attempt := 0; ; attempt++ {
		req, err := c.request(ctx, k, raw, key)
		if err != nil {
			return nil, err
		}
		resp, again, err := c.send(req)
		if err == nil {
			return resp, nil
		}
		if !k.repeatable(again) || c.rest(ctx, attempt, again.After) != nil {
			return nil, err
		}
	}
}

// repeatable says whether a call that failed may be sent again. What was refused
// for lack of room was not begun: it may, whatever it is, as long as it can be.
func (k *call) repeatable(again fault.Again) bool {
	if k.body != nil || !again.May {
		return false
	}
	return again.Untouched || k.keyed || k.same || k.method == http.MethodGet || k.method == http.MethodHead
}

// send sends one request.
func (c *Client) send(req *http.Request) (*http.Response, fault.Again, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fault.Again{May: fault.Broken(err)}, c.fault(req.Context(), err)
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		resp.Body = &ending{ReadCloser: resp.Body, resp: resp}
		return resp, fault.Again{}, nil
	}
	defer resp.Body.Close()
	problem, ours := fault.Problem(resp)
	return nil, fault.After(resp, problem, ours), problem
}

func (c *Client) request(ctx context.Context, k call, raw []byte, key string) (*http.Request, error) {
	body := k.body
	if raw != nil {
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.url(k.path, k.query), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if raw == nil && k.size > 0 {
		req.ContentLength = k.size
	}
	c.dress(req.Header)
	req.Header.Set("TE", "trailers")
	maps.Copy(req.Header, k.header)
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(api.HeaderIdempotencyKey, key)
	}
	return req, nil
}

func (c *Client) url(path string, query url.Values) string {
	u := c.base.String() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// dress sets the headers that every request carries.
func (c *Client) dress(h http.Header) {
	h.Set("User-Agent", c.userAgent)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	if c.holder != "" {
		h.Set(api.HeaderHolder, c.holder)
	}
	if c.epoch != 0 {
		h.Set(api.HeaderEpoch, strconv.FormatUint(c.epoch, 10))
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

// fault gives an error of the transport a code.
func (c *Client) fault(ctx context.Context, err error) error {
	return fault.Of(ctx, c.base.Host, err)
}

// asError finds the *api.Error within an error.
func asError(err error) (*api.Error, bool) {
	var p *api.Error
	ok := errors.As(err, &p)
	return p, ok
}
