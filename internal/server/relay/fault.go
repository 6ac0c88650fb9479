package relay

import (
	"errors"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

// Fault is fault.From for what goes wrong on a WebSocket.
func Fault(err error) *api.Error {
	if errors.Is(err, stream.ErrProtocol) {
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	return fault.From(err)
}
