package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Desktops makes and lists desktops.
type Desktops struct{ c *Client }

// CreateOption changes how a desktop is created or forked.
type CreateOption func(url.Values)

// Until makes Create and Fork return when a stage is reached (StageDrawn:
// usable). An error of a later stage is returned, and the desktop stays for a
// look at its logs.
func Until(stage api.Stage) CreateOption {
	return func(q url.Values) {
		q.Set("wait", string(stage))
	}
}

// Within is how long Until waits at most.
func Within(d time.Duration) CreateOption {
	return func(q url.Values) { q.Set("timeout", d.String()) }
}

// Create makes a desktop of an image or a snapshot. Without Until it returns when
// the desktop is admitted and its machine begins.
func (s *Desktops) Create(ctx context.Context, spec api.CreateDesktop, opts ...CreateOption) (*Desktop, error) {
	info, err := wire.Fetch[api.Desktop](ctx, s.c.server, wire.Call{
		Method: http.MethodPost, Path: "/v1/desktops", Query: values(opts), JSON: spec, Keyed: true,
	})
	if err != nil {
		return nil, err
	}
	return newDesktop(s.c, info.ID, info), nil
}

func values(opts []CreateOption) url.Values {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	return q
}

// Filter narrows a list of desktops. Zero members do not.
type Filter struct {
	Labels map[string]string // an empty value asks for the key alone
	State  api.DesktopState
	Name   string
}

// List lists desktops of the token's project, newest first.
func (s *Desktops) List(ctx context.Context, filter Filter) ([]api.Desktop, error) {
	q := url.Values{}
	for k, v := range filter.Labels {
		if v != "" {
			k += "=" + v
		}
		q.Add("label", k)
	}
	if filter.State != "" {
		q.Set("state", string(filter.State))
	}
	if filter.Name != "" {
		q.Set("name", filter.Name)
	}
	list, err := wire.Fetch[api.DesktopList](ctx, s.c.server, wire.Call{Path: "/v1/desktops", Query: q})
	return list.Desktops, err
}

// Get describes a desktop.
func (s *Desktops) Get(ctx context.Context, ref string) (api.Desktop, error) {
	return wire.Fetch[api.Desktop](ctx, s.c.server, wire.Call{Path: "/v1/desktops/" + wire.Seg(ref)})
}

// Delete ends a desktop and removes what it owned. Deleting twice is no error.
func (s *Desktops) Delete(ctx context.Context, ref string) error {
	return s.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: "/v1/desktops/" + wire.Seg(ref)})
}
