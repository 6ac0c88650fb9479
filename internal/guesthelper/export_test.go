//go:build linux

package guesthelper

import (
	"context"

	"github.com/deskfork/deskfork/pkg/guest"
)

// NewTestServer serves functions instead of a session.
func NewTestServer(conn *guest.HelperConn, ops map[string]func(context.Context, guest.HelperMessage) (any, []byte, error), lost <-chan struct{}) *Server {
	m := map[string]op{}
	for name, f := range ops {
		m[name] = func(ctx context.Context, msg guest.HelperMessage) (reply, error) {
			r, b, err := f(ctx, msg)
			return reply{r, b}, err
		}
	}
	return newServer(conn, m, lost, nil)
}

// DecodeBatch decodes parameters of OpInput.
func DecodeBatch(raw []byte) (guest.InputBatch, error) { return decode[guest.InputBatch](raw) }
