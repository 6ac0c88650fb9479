package client

import (
	"context"
	"net"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/port"
)

// Dial opens a connection to a TCP port of the guest, its loopback included.
// When the port answers no, Dial or the first Read ends with the code refused.
// The connection also has CloseWrite, as a *net.TCPConn has.
func (d *Desktop) Dial(ctx context.Context, number int) (net.Conn, error) {
	if number < 1 || number > 65535 {
		return nil, api.Errorf(api.CodeInvalid, "port %d is not within 1 to 65535", number)
	}
	ws, err := d.c.server.Socket(ctx, d.path("/tcp/"+strconv.Itoa(number)), nil, api.SubprotocolTCP)
	if err != nil {
		return nil, err
	}
	return port.New(ws), nil
}
