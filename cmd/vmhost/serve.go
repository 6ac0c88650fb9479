package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/image/build"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// imagesDir holds images in the data directory.
const imagesDir = "images"

// drainFor is how long calls in progress may take at the end; then they are cut.
const drainFor = 3 * time.Second

func serveCmd(g *cli.Globals) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon that runs desktops",
		Long: `Runs the daemon. It listens on loopback unless --listen says otherwise, makes an
administrator's token in the data directory at its first start, and prints a
line when it is ready.

Its end, by a signal or a crash, ends no desktop: they run on, and the next
start finds them again. A second signal ends it by force.`,
		Example: `  vmhost serve
  vmhost serve --data-dir /srv/deskfork --accel kvm
  vmhost serve --listen 0.0.0.0:7717 --tls-cert cert.pem --tls-key key.pem
  vmhost serve --egress-allow 10.1.0.0/16 --egress-deny 203.0.113.7`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(g.DataDir)
			if err != nil {
				return fmt.Errorf("find data directory: %w", err)
			}
			cfg, err := f.parse(dir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// serve runs the daemon until ctx ends.
//
// Order of the end: stop intake (no new calls, those in progress get drainFor,
// streams are cut), end the runs with their machines, end the host's actors, let go of the machines, which run on,
// and flush the database; last, give the data directory back. The deferred
// calls below say the same from the bottom up.
func serve(ctx context.Context, cfg serveConfig, out io.Writer) (err error) {
	release, err := takeDirs(cfg.dataDir, cfg.runtimeDir)
	if err != nil {
		return err
	}
	defer closing(&err, release)
	if err := inPlace(cfg.dataDir); err != nil {
		return err
	}
	store, err := image.Open(image.Config{Dir: filepath.Join(cfg.dataDir, imagesDir), RemoveAll: build.RemoveAll, Group: group(cfg.user)})
	if err != nil {
		return err
	}
	provider, err := newProvider(cfg)
	if err != nil {
		return err
	}
	defer closing(&err, provider.Close)
	blobs, endBlobs, err := cfg.blobs.open(ctx, cfg.dataDir)
	if err != nil {
		return err
	}
	defer closing(&err, endBlobs)
	db, err := cfg.sessions.open(ctx, cfg.dataDir)
	if err != nil {
		return err
	}
	defer closing(&err, db.Close)
	h, err := host.New(ctx, host.Config{
		DataDir: cfg.dataDir, Version: version, Provider: provider, Images: adapter.Images{Store: store},
		Open: adapter.Opener, Logger: cfg.log, Limits: cfg.limits, Pool: cfg.pool, Billing: cfg.billing, Blobs: blobs, Fences: fences(db),
		Recordings: cfg.records,
	})
	if err != nil {
		return err
	}
	defer closing(&err, h.Close)
	token, err := h.FirstToken(ctx)
	if err != nil {
		return err
	}
	work, err := newSessions(cfg, h, provider, db)
	if err != nil {
		return err
	}
	leased, endLeases, err := newLeases(ctx, cfg, h, provider)
	if err != nil {
		return err
	}
	defer closing(&err, endLeases)
	listener, media, endListening, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer closing(&err, endListening)
	srv, err := newServer(cfg, parts{host: h, sessions: work, leases: leased, media: media}, provider, listener.Addr().String())
	if err != nil {
		return err
	}
	unpublish, err := publish(cfg.dataDir, cfg.reachable(listener.Addr()))
	if err != nil {
		return err
	}
	defer closing(&err, unpublish)
	return run(ctx, parts{cfg: cfg, host: h, sessions: work, leases: leased, server: srv, listener: listener, token: token, out: out})
}

// listen opens the ports of the API and of viewers.
func listen(ctx context.Context, cfg serveConfig) (net.Listener, *rtc.Endpoint, func() error, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("listen on %s: %w", cfg.listen, err)
	}
	media, end, err := openMedia(ctx, cfg)
	if err != nil {
		return nil, nil, nil, errors.Join(err, l.Close())
	}
	return l, media, func() error {
		_ = l.Close() // the server has closed it, but where it never began
		return end()
	}, nil
}

// closing joins the error of an end to that of a function.
func closing(err *error, end func() error) { *err = errors.Join(*err, end()) }

// group is whose files machines may read besides their own; 0 when they run as
// our own user.
func group(u *qemu.User) int {
	if u == nil {
		return 0
	}
	return int(u.GID)
}

func newProvider(cfg serveConfig) (*qemu.Provider, error) {
	egress, err := policy.New(cfg.egress)
	if err != nil {
		return nil, err
	}
	var upstreams func() ([]string, error)
	if len(cfg.dnsHosts) > 0 {
		upstreams = func() ([]string, error) { return cfg.dnsHosts, nil } //nolint:unparam // a fixed list never fails
	}
	return qemu.New(qemu.Config{
		DataDir: cfg.dataDir, RuntimeDir: cfg.runtimeDir, QEMU: cfg.qemu,
		Accelerator: vm.Accelerator(cfg.accel), User: cfg.user, CgroupRoot: cfg.cgroup, Logger: cfg.log,
		Network: func(_ context.Context, spec qemu.NetworkSpec) (qemu.Network, error) {
			return vmnet.Open(vmnet.Config{
				Local: spec.Local, Remote: spec.Remote, Mode: spec.Mode,
				Dialer: egress, Upstreams: upstreams, Logger: spec.Logger,
			})
		},
		Trace: func(step string) { cfg.log.Debug("step of a machine is done", "step", step) },
	})
}

func newServer(cfg serveConfig, p parts, provider vm.Provider, address string) (*server.Server, error) {
	return server.New(server.Config{
		Host: p.host, Sessions: p.sessions, Sandboxes: p.leases, Media: p.media, Address: address, ExternalURL: cfg.external, AllowedHosts: cfg.allowedHosts,
		TrustedProxies: cfg.proxies, TLS: cfg.tlsCert != "", OpenMetrics: cfg.openMetrics,
		Logger: cfg.log, Version: version,
		Doctor: func() doctor.Config {
			return doctor.Config{
				DataDir: cfg.dataDir, RuntimeDir: cfg.runtimeDir, Provider: provider, Images: p.host.Shelf.List, Address: address, Listening: true,
				ExternalURL: cfg.external, TLS: cfg.tlsCert != "",
			}
		},
	})
}

// parts are what run runs.
type parts struct {
	cfg      serveConfig
	host     *host.Host
	sessions *sessions.Desk
	leases   *leases.Desk
	media    *rtc.Endpoint // nil: there are no viewers by WebRTC
	server   *server.Server
	listener net.Listener
	token    string // path of the file
	out      io.Writer
}

// run serves until ctx ends or a part fails, and returns when all has ended.
func run(ctx context.Context, p parts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Calls end after intake has stopped, and the host after the last call.
	calls, cutCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cutCalls()
	hosting, endHost := context.WithCancel(context.WithoutCancel(ctx))
	defer endHost()
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	worked := make(chan struct{})
	web := server.HTTP(p.server, p.cfg.log)
	web.BaseContext = func(net.Listener) context.Context { return calls }
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		return p.host.Run(hosting)
	})
	group.Go(func() error {
		defer cancel()
		defer close(worked)
		if err := p.sessions.Run(working); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		runLeases(hosting, p.host, p.leases)
		return nil
	})
	group.Go(func() error {
		defer cancel()
		if err := p.listen(web); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the API: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer endHost()
		p.announce(ctx)
		<-ctx.Done()
		p.cfg.log.Info("stopping; machines run on, but for those of runs")
		err := stopIntake(ctx, web, cutCalls)
		endWork()
		<-worked
		return err
	})
	return group.Wait()
}

func (p *parts) listen(web *http.Server) error {
	if p.cfg.tlsCert != "" {
		return web.ServeTLS(p.listener, p.cfg.tlsCert, p.cfg.tlsKey)
	}
	return web.Serve(p.listener)
}

// announce prints the line that says that the daemon is ready.
func (p *parts) announce(ctx context.Context) {
	select {
	case <-p.host.Ready():
	case <-ctx.Done():
		return
	}
	scheme := "http"
	if p.cfg.tlsCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.out, "vmhost %s ready at %s://%s, token in %s\n", version, scheme, p.listener.Addr(), p.token)
}

// stopIntake ends the server: new calls are refused, those in progress get a
// moment, streams and what is left are cut.
func stopIntake(ctx context.Context, web *http.Server, cut func()) error {
	ctx = context.WithoutCancel(ctx)
	timer := time.AfterFunc(drainFor, cut)
	defer timer.Stop()
	limit, cancel := context.WithTimeout(ctx, 2*drainFor)
	defer cancel()
	err := web.Shutdown(limit)
	cut() // WebSockets, which Shutdown does not know
	if errors.Is(err, context.DeadlineExceeded) {
		return web.Close()
	}
	return err
}
