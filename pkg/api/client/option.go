package client

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Option changes how a Client is made.
type Option func(*Client) error

// WithToken sends a bearer token.
func WithToken(token string) Option {
	return func(c *Client) error {
		c.server.Token = token
		return nil
	}
}

// WithTokenFile reads the bearer token from a file; white space around it is
// dropped.
func WithTokenFile(path string) Option {
	return func(c *Client) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		c.server.Token = strings.TrimSpace(string(raw))
		if c.server.Token == "" {
			return fmt.Errorf("read token: %s is empty", path)
		}
		return nil
	}
}

// WithTLS sets how https servers are verified, for HTTP and WebSocket alike.
func WithTLS(config *tls.Config) Option {
	return func(c *Client) error {
		c.server.TLS = config
		return nil
	}
}

// WithUserAgent names the program that calls.
func WithUserAgent(name string) Option {
	return func(c *Client) error {
		c.server.UserAgent = name
		return nil
	}
}

// WithHolder sets who sends input, clipboard and window calls and under which
// epoch of the control lease. An empty holder is the token itself, epoch 0 the
// present one.
func WithHolder(holder string, epoch uint64) Option {
	return func(c *Client) error {
		c.server.Holder, c.server.Epoch = holder, epoch
		return nil
	}
}

// WithRetries sets how often a call that may be repeated is tried again
// (default 4, 0: never) and how long the first pause is (default 100 ms, doubled
// each time). A server's Retry-After is honoured up to 30 s, and not beyond the
// context's deadline; a call that would have to wait longer fails at once.
func WithRetries(times int, pause time.Duration) Option {
	return func(c *Client) error {
		c.server.Retries, c.server.Pause = times, pause
		return nil
	}
}

// WithPatience is how long a broken stream (exec, events) is dialled again
// before its call fails. Default 2 minutes; negative: not at all.
func WithPatience(d time.Duration) Option {
	return func(c *Client) error {
		c.patience = d
		return nil
	}
}

// WithTransport replaces the HTTP transport. WebSockets do not use it.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) error {
		c.server.HTTP.Transport = rt
		return nil
	}
}
