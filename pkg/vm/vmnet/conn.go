package vmnet

import (
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// conn is a TCP connection with the guest.
type conn struct {
	*gonet.TCPConn
	ep tcpip.Endpoint
}

// abort resets the connection.
func (c *conn) abort() { c.ep.Abort() }

// keepAlive finds out, in the end, that a guest has forgotten a connection, as
// after a reset. It is slow so that a paused guest keeps it for hours.
func (c *conn) keepAlive() {
	idle, every, count := tcpip.KeepaliveIdleOption(10*time.Minute), tcpip.KeepaliveIntervalOption(time.Minute), 60
	_ = c.ep.SetSockOpt(&idle)
	_ = c.ep.SetSockOpt(&every)
	_ = c.ep.SetSockOptInt(tcpip.KeepaliveCountOption, count)
	c.ep.SocketOptions().SetKeepAlive(true)
}
