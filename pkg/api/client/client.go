package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Client speaks to one server. It holds no open connection of its own.
type Client struct {
	server   *wire.Server
	patience time.Duration
}

// New makes a client of the server at an address such as
// http://127.0.0.1:7717; without a scheme, http is meant. Nothing is dialled.
func New(address string, opts ...Option) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("parse address %q: want http://host:port or https://host:port", address)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	base.RawQuery, base.Fragment = "", ""
	server := &wire.Server{Base: base, HTTP: &http.Client{}, UserAgent: "deskfork-go", Retries: 4, Pause: 100 * time.Millisecond}
	c := &Client{server: server, patience: 2 * time.Minute}
	for _, opt := range opts {
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	if server.HTTP.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = server.TLS.Clone() // the transport writes to its own
		t.MaxIdleConnsPerHost = 16
		// Bodies are pixels, tar and programs' output: compressing them on the
		// way would hide lengths and cost time.
		t.DisableCompression = true
		server.HTTP.Transport = t
	}
	// A redirect would carry the token elsewhere.
	server.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Address is the server's base URL.
func (c *Client) Address() string { return c.server.Base.String() }

// Info describes the host.
func (c *Client) Info(ctx context.Context) (api.Info, error) {
	return wire.Fetch[api.Info](ctx, c.server, wire.Call{Path: "/v1/info"})
}

// Doctor asks the host to examine itself.
func (c *Client) Doctor(ctx context.Context) (api.Doctor, error) {
	return wire.Fetch[api.Doctor](ctx, c.server, wire.Call{Path: "/v1/doctor"})
}

// Healthy asks, without a token, whether the server runs.
func (c *Client) Healthy(ctx context.Context) error {
	return c.server.Run(ctx, wire.Call{Path: "/healthz"})
}

// Desktops makes and lists desktops.
func (c *Client) Desktops() *Desktops { return &Desktops{c: c} }

// Desktop is a handle on a desktop by id or name. It asks nothing of the
// server yet.
func (c *Client) Desktop(ref string) *Desktop { return newDesktop(c, ref, api.Desktop{}) }

// Snapshots lists, removes, exports and imports snapshots.
func (c *Client) Snapshots() *Snapshots { return &Snapshots{c: c} }

// Workspaces lists, clones and checks workspaces.
func (c *Client) Workspaces() *Workspaces { return &Workspaces{c: c} }

// Runs runs commands in workspaces.
func (c *Client) Runs() *Runs { return &Runs{c: c} }

// Tree is the lineage of the project's desktops: who was forked from whom, what
// each shares and what it costs. Parents come before their children.
func (c *Client) Tree(ctx context.Context) (api.Tree, error) {
	return wire.Fetch[api.Tree](ctx, c.server, wire.Call{Path: "/v1/tree"})
}

// Images lists and removes images.
func (c *Client) Images() *Images { return &Images{c: c} }

// Usage tells what desktops use and what that costs.
func (c *Client) Usage() *Usage { return &Usage{c: c} }

// Tokens makes and removes tokens; it needs the scope admin.
func (c *Client) Tokens() *Tokens { return &Tokens{c: c} }
