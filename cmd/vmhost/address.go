package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/x/atomicfile"
)

// reachable is the URL under which a program on this machine reaches the server.
func (c serveConfig) reachable(at net.Addr) string {
	if c.tlsCert != "" && c.external != nil { // the name that its certificate is for
		return c.external.String()
	}
	scheme, address := "http", at.String()
	if c.tlsCert != "" {
		scheme = "https"
	}
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		address = netip.AddrPortFrom(loopback, a.Port()).String()
	}
	return scheme + "://" + address
}

// publish writes into the data directory where the server is reached, so that
// commands find it by that directory alone. remove takes that back.
func publish(dataDir, url string) (remove func() error, _ error) {
	name := filepath.Join(dataDir, cli.AddressName)
	// It is no secret: who has a token of their own may need it.
	if err := atomicfile.Write(name, []byte(url+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write address file: %w", err)
	}
	return func() error {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove address file: %w", err)
		}
		return nil
	}, nil
}
