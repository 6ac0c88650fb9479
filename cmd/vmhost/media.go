package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// noMedia is the address that takes no viewers by WebRTC.
const noMedia = "none"

// mediaFlags say how viewers reach the host, as they were written.
type mediaFlags struct {
	listen         string
	public         []string
	stun, turn     []string
	turnSecretFile string
	turnTTL        time.Duration
}

func (f *mediaFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.listen, "media-listen", "", "`address` for viewers by WebRTC, UDP and TCP alike; none takes none (default: that of --listen with the next port)")
	fl.StringSliceVar(&f.public, "media-public", nil, "`addresses` of this host as viewers see it, when they are not its own")
	fl.StringSliceVar(&f.stun, "stun", nil, "`URLs` of STUN servers for viewers, such as stun:stun.example:3478")
	fl.StringSliceVar(&f.turn, "turn", nil, "`URLs` of TURN servers for viewers, such as turn:turn.example:3478?transport=udp")
	fl.StringVar(&f.turnSecretFile, "turn-secret-file", "", "`file` with the secret that they share with us (coturn: static-auth-secret)")
	fl.DurationVar(&f.turnTTL, "turn-ttl", time.Hour, "how long a viewer's credentials for them are valid")
}

// parse reads the flags; listen is where the API is served.
func (f mediaFlags) parse(listen string) (rtc.Config, error) {
	c := rtc.Config{Listen: f.listen, STUN: f.stun}
	var errs []error
	if c.Listen == "" {
		host, port, err := net.SplitHostPort(listen)
		if err != nil {
			return c, nil //nolint:nilerr // it is reported for the API
		}
		n, err := strconv.Atoi(port)
		if err != nil || n > 65534 {
			return c, fmt.Errorf("port %q of the API has none next to it", port)
		}
		if n > 0 {
			n++
		}
		c.Listen = net.JoinHostPort(host, strconv.Itoa(n))
	} else if c.Listen != noMedia {
		_, _, err := net.SplitHostPort(c.Listen)
		errs = append(errs, err)
	}
	for _, word := range f.public {
		a, err := netip.ParseAddr(word)
		errs = append(errs, err)
		c.Public = append(c.Public, a)
	}
	if (len(f.turn) > 0) != (f.turnSecretFile != "") {
		errs = append(errs, errors.New("--turn and --turn-secret-file belong together"))
	} else if len(f.turn) > 0 {
		secret, err := os.ReadFile(f.turnSecretFile)
		errs = append(errs, err)
		c.TURN = []rtc.TURN{{URLs: f.turn, Secret: strings.TrimSpace(string(secret)), TTL: f.turnTTL}}
	}
	return c, errors.Join(errs...)
}

// openMedia opens the sockets for viewers; nil: there are none.
func openMedia(ctx context.Context, cfg serveConfig) (e *rtc.Endpoint, end func() error, err error) {
	if cfg.media.Listen == noMedia {
		return nil, func() error { return nil }, nil
	}
	cfg.media.Logger = cfg.log
	e, err = rtc.Open(ctx, cfg.media)
	if host, _, bad := net.SplitHostPort(cfg.media.Listen); errors.Is(err, syscall.EADDRINUSE) && cfg.anyPort && bad == nil {
		cfg.log.Warn("the port for viewers is taken, so they come by another one; choose one with --media-listen", "address", cfg.media.Listen)
		cfg.media.Listen = net.JoinHostPort(host, "0")
		e, err = rtc.Open(ctx, cfg.media)
	}
	if err != nil {
		return nil, nil, err
	}
	return e, e.Close, nil
}
