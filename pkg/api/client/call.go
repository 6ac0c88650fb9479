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
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/link"
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
	repeat := k.body == nil && (k.keyed || k.method == http.MethodGet || k.method == http.MethodHead)
	for attempt := 0; ; attempt++ {
		req, err := c.request(ctx, k, raw, key)
		if err != nil {
			return nil, err
		}
		resp, again, err := c.send(req)
		if err == nil {
			return resp, nil
		}
		if !repeat || !again || attempt >= c.retries || link.Pause(ctx, c.pause<<min(attempt, 6)) != nil {
			return nil, err
		}
	}
}

// send sends one request. again says whether the same request may fare better.
func (c *Client) send(req *http.Request) (_ *http.Response, again bool, _ error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, broken(err), c.fault(req.Context(), err)
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		return resp, false, nil
	}
	defer resp.Body.Close()
	problem, ours := problemOf(resp)
	gateway := resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable
	// What our server refuses for lack of room stays refused for a while.
	return nil, gateway && (!ours || problem.Code == api.CodeGuestUnavail), problem
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

// problemOf makes an *api.Error of an answer; ours says that the server wrote
// it, and not something in between.
func problemOf(resp *http.Response) (_ *api.Error, ours bool) {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is enough for a message
	var p api.Error
	if json.Unmarshal(raw, &p) == nil && p.Code != "" {
		if p.Status == 0 {
			p.Status = resp.StatusCode
		}
		return &p, true
	}
	detail := strings.TrimSpace(string(raw[:min(len(raw), 300)]))
	if p.Detail != "" {
		detail = p.Detail
	}
	return &api.Error{
		Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode, Code: codeOf(resp.StatusCode),
		Detail: strings.TrimSuffix(fmt.Sprintf("%s: %s", resp.Status, detail), ": "), Errors: p.Errors,
	}, false
}

// codeOf guesses a code for a status that came without one.
func codeOf(status int) api.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return api.CodeInvalid
	case http.StatusUnauthorized:
		return api.CodeUnauthorized
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return api.CodeForbidden
	case http.StatusNotFound:
		return api.CodeNotFound
	case http.StatusConflict:
		return api.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return api.CodeTooLarge
	case http.StatusTooManyRequests:
		return api.CodeRateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return api.CodeRefused
	case http.StatusGatewayTimeout:
		return api.CodeDeadline
	default:
		return api.CodeInternal
	}
}

// asError finds the *api.Error within an error.
func asError(err error) (*api.Error, bool) {
	var p *api.Error
	ok := errors.As(err, &p)
	return p, ok
}
