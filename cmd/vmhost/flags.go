package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/user"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/pool"
	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// serveFlags are the flags of serve, as they were written.
type serveFlags struct {
	runtimeDir, listen                string
	tlsCert, tlsKey, externalURL      string
	allowedHosts, trustedProxies      []string
	openMetrics                       bool
	accel, qemu, qemuUser, cgroup     string
	logFormat, logLevel               string
	egressPrivate                     bool
	egressAllow, egressDeny, dnsHosts []string
	stageLimits                       map[string]string
	pool                              pool.Limits
	usage                             usageFlags
	blobs                             blobFlags
	sessions                          sessionFlags
	media                             mediaFlags
	record                            recordFlags
}

func (f *serveFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.runtimeDir, "runtime-dir", "", "`directory` of sockets; a short path (default: /run/deskfork, or run in the data directory when not started as root)")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7717", "`address` to serve the API on")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "`file` with the certificate chain in PEM")
	fl.StringVar(&f.tlsKey, "tls-key", "", "`file` with its key in PEM")
	fl.StringVar(&f.externalURL, "external-url", "", "the server's `URL` as clients see it, when that differs")
	fl.StringSliceVar(&f.allowedHosts, "allowed-host", nil, "further `names` that requests may call the server by")
	fl.StringSliceVar(&f.trustedProxies, "trusted-proxy", nil, "`networks` whose X-Forwarded headers are believed, such as 10.0.0.0/8")
	fl.BoolVar(&f.openMetrics, "open-metrics", false, "let loopback read /metrics without a token")
	fl.StringVar(&f.accel, "accel", "auto", "how vCPUs run: auto (the best that was proven to run), kvm or tcg")
	fl.StringVar(&f.qemu, "qemu", "", "the QEMU `program` (default: qemu-system-x86_64 in PATH)")
	fl.StringVar(&f.qemuUser, "qemu-user", "auto", "`user` that machines run as when started as root; auto is deskfork-qemu, or else nobody")
	fl.StringVar(&f.cgroup, "cgroup", "", "cgroup v2 `directory` of the machines alone (default: no limits by the kernel)")
	fl.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fl.BoolVar(&f.egressPrivate, "egress-private", false, "let desktops reach private networks (RFC 1918 and the like)")
	fl.StringSliceVar(&f.egressAllow, "egress-allow", nil, "private `networks` that desktops may reach, such as 10.1.0.0/16")
	fl.StringSliceVar(&f.egressDeny, "egress-deny", nil, "`networks` that no desktop may reach; wins over what is allowed")
	fl.StringToStringVar(&f.stageLimits, "stage-limit", nil, "how long `stages` of a boot may take where vCPUs run in hardware, such as drawn=2m,link=90s; emulation has a multiple of it")
	fl.IntVar(&f.pool.Warm, "pool-warm", 0, "how many clones at most are kept ready to be handed out, as many as were asked for lately; each takes about 100 MiB")
	fl.IntVar(&f.pool.Prepared, "pool-prepared", 0, "how many processes at most wait for the state of a clone; each takes about 30 MiB")
	f.usage.add(fl)
	f.blobs.add(fl)
	f.sessions.add(fl)
	f.media.add(fl)
	f.record.add(fl)
	fl.StringSliceVar(&f.dnsHosts, "dns", nil, "`resolvers` for desktops as host:port (default: the host's own)")
}

// serveConfig is what the flags mean.
type serveConfig struct {
	serveFlags

	dataDir  string
	external *url.URL
	proxies  []netip.Prefix
	egress   policy.Config
	limits   boot.Limits
	user     *qemu.User
	billing  usage.Config
	media    rtc.Config
	anyPort  bool // viewers may come by another port than the one next to the API's
	records  recording.Limits
	log      *slog.Logger
}

// parse reads the flags and reports all that is wrong.
func (f serveFlags) parse(dataDir string, logTo io.Writer) (serveConfig, error) {
	c := serveConfig{serveFlags: f, dataDir: dataDir}
	c.runtimeDir = f.socketDir(dataDir)
	var errs []error
	keep := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	if f.externalURL != "" {
		c.external, err = url.Parse(f.externalURL)
		keep("external-url", err)
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		keep("tls-cert", errors.New("--tls-cert and --tls-key belong together"))
	}
	_, _, err = net.SplitHostPort(f.listen)
	keep("listen", err)
	switch vm.Accelerator(f.accel) {
	case vm.AccelAuto, vm.AccelKVM, vm.AccelTCG:
	default:
		keep("accel", fmt.Errorf("%q is none of auto, kvm and tcg", f.accel))
	}
	c.proxies, err = prefixes(f.trustedProxies)
	keep("trusted-proxy", err)
	c.egress.AllowPrivate = f.egressPrivate
	c.egress.Allow, err = prefixes(f.egressAllow)
	keep("egress-allow", err)
	c.egress.Deny, err = prefixes(f.egressDeny)
	keep("egress-deny", err)
	for _, r := range f.dnsHosts {
		_, _, err := net.SplitHostPort(r)
		keep("dns", err)
	}
	c.limits, err = limits(f.stageLimits)
	keep("stage-limit", err)
	c.billing, err = f.usage.parse()
	keep("rates", err)
	c.media, err = f.media.parse(f.listen)
	c.anyPort = f.media.listen == ""
	keep("media-listen", err)
	if c.records, err = f.record.parse(); err != nil {
		errs = append(errs, err)
	}
	c.user, err = qemuUser(f.qemuUser)
	keep("qemu-user", err)
	c.log, err = logger(f.logFormat, f.logLevel, logTo)
	keep("log-level", err)
	if err := errors.Join(errs...); err != nil {
		return c, api.Errorf(api.CodeInvalid, "%v", err)
	}
	return c, nil
}

// limits are the default ones but for what the flag says.
func limits(words map[string]string) (boot.Limits, error) {
	l := boot.DefaultLimits()
	stages := map[string]*time.Duration{
		string(api.StageMachine): &l.Machine, string(api.StageLink): &l.Link, string(api.StageHandshake): &l.Handshake,
		string(api.StageSession): &l.Session, string(api.StageDrawn): &l.Drawn,
	}
	for stage, word := range words {
		limit, ok := stages[stage]
		if !ok {
			return l, fmt.Errorf("%q is none of machine, link, handshake, session and drawn", stage)
		}
		d, err := time.ParseDuration(word)
		if err != nil || d <= 0 {
			return l, fmt.Errorf("%s=%s: want a time such as 90s or 2m", stage, word)
		}
		*limit = d
	}
	return l, nil
}

// prefixes reads networks; an address alone is a network of one.
func prefixes(words []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, w := range words {
		p, err := netip.ParsePrefix(w)
		if addr, aerr := netip.ParseAddr(w); aerr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// qemuUser finds the user whom machines run as: nil is our own.
func qemuUser(name string) (*qemu.User, error) {
	if name == "" || os.Geteuid() != 0 {
		if name != "" && name != "auto" {
			return nil, errors.New("only root can run machines as another user")
		}
		return nil, nil //nolint:nilnil // nil is the provider's word for our own user
	}
	if name == "auto" {
		name = "deskfork-qemu"
		if _, err := user.Lookup(name); err != nil {
			name = "nobody"
		}
	}
	return qemu.LookupUser(name)
}

func logger(format, level string, w io.Writer) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("%q is none of debug, info, warn and error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
}
