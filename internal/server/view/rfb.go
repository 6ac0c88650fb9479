package view

import (
	"context"
	"errors"
	"image"
	"io"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/host/viewer"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/relay"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rfb/rfbserver"
)

// subprotocol is what clients of RFB over WebSocket may offer.
const subprotocol = "binary"

func (v *views) registerRFB() {
	v.routes.Stream(huma.Operation{
		OperationID: "rfb", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/rfb", Tags: []string{"control"},
		Summary: "Watch a desktop, and act on it, over RFB (WebSocket " + subprotocol + ")",
		Description: "For noVNC and its like. Who presses a button or key takes control, as far as role and policy allow; " +
			"a bell says that they do not.",
		Parameters: append(spec.Path("desktop"), spec.Header(api.HeaderHolder, "Name of a token's viewer; default: made up")),
		Responses:  spec.Switching(),
	}, route.Read.Long().For(ticket.View), v.rfb)
}

// Viewer is who asks to watch, by whatever carries the pixels.
func Viewer(r *http.Request, via string) viewer.Viewer {
	ctx := r.Context()
	st := gate.Of(ctx)
	v := viewer.Viewer{Project: st.Principal.Project, Desktop: r.PathValue("desktop"), Via: via, Role: ticket.View}
	name := r.Header.Get(api.HeaderHolder)
	if name == "" {
		name = "viewer-" + token.NewID('v')
	}
	v.Who = Holder(ctx, name, api.ControlPerson)
	switch {
	case st.Grant != nil:
		v.Role = st.Grant.Role
	case st.Principal.Can(token.ScopeWrite):
		v.Role = ticket.Control
	}
	return v
}

func (v *views) rfb(w http.ResponseWriter, r *http.Request) error {
	if err := stream.Wanted(r); err != nil {
		return err
	}
	visit, err := v.Host.Viewers.Join(r.Context(), Viewer(r, "rfb"))
	if err != nil {
		return err
	}
	defer visit.Leave() //nolint:contextcheck // who has gone has no context
	ctx, lost := context.WithCancel(r.Context())
	defer lost()
	ws, err := stream.Upgrade(w, r, subprotocol, v.Heartbeat, lost)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	copies := make(chan string)
	var wait sync.WaitGroup
	wait.Go(func() {
		visit.Copies(ctx, func(text string) {
			select {
			case copies <- text:
			case <-ctx.Done():
			}
		})
	})
	d := visit.Display()
	err = rfbserver.Serve(ctx, &wire{ws: ws}, rfbserver.Config{
		Name: visit.Desktop().Name, Source: d.Source, Input: d.Input, Paste: visit.Paste, Copies: copies,
		Resize: func(ctx context.Context, size image.Point) error {
			return visit.Do(ctx, func(ctx context.Context) error {
				_, err := v.Host.Settings.SetDisplay(ctx, visit.Desktop().Project, visit.Desktop().ID, api.Display{Width: size.X, Height: size.Y})
				return err
			})
		},
	})
	lost()
	wait.Wait()
	if err != nil && r.Context().Err() == nil {
		gate.Note(r, relay.Fault(err))
	}
	return nil
}

// wire is a WebSocket as a stream of bytes. One goroutine reads, another writes.
type wire struct {
	ws   *stream.Socket
	part io.Reader // the rest of a message
	once sync.Once
}

// Read implements io.Reader.
func (c *wire) Read(p []byte) (int, error) {
	for {
		if c.part == nil {
			m, err := c.ws.Next()
			if err != nil {
				return 0, err
			}
			if m.Binary == nil {
				return 0, stream.ErrProtocol
			}
			c.part = m.Binary
		}
		n, err := c.part.Read(p)
		if errors.Is(err, io.EOF) {
			c.part, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write implements io.Writer.
func (c *wire) Write(p []byte) (int, error) {
	if err := c.ws.Binary(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements io.Closer.
func (c *wire) Close() error {
	c.once.Do(func() { c.ws.Close(nil) })
	return nil
}
