// Command guestd is the daemon inside a Deskfork guest. It serves the host over
// one TCP port of the guest's private network: programs, files, the system's
// settings, port dialling, and the desktop through its helper.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/guestd"
	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/internal/guestd/runner"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/internal/x/heap"
	"github.com/deskfork/deskfork/internal/x/hypervisor"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// version is set by the build.
var version = "dev"

type options struct {
	config     string
	listen     string
	allow      string
	user       string
	helper     string
	display    string
	xauthority string
	idle       time.Duration
	debug      bool
}

func main() {
	runner.Main(os.Args, os.Environ())
	var o options
	flag.StringVar(&o.config, "config", guest.ConfigPath, "`file` with the link's token")
	flag.StringVar(&o.listen, "listen", ":"+strconv.Itoa(guest.Port), "`address` to serve the host on")
	flag.StringVar(&o.allow, "allow", "192.168.127.1/32,10.0.2.2/32,127.0.0.0/8,::1/128",
		"`networks` that may connect: the gateways of Deskfork's and of QEMU's user networks, and loopback; empty: all")
	flag.StringVar(&o.user, "user", "agent", "`user` who runs programs and owns files by default")
	flag.StringVar(&o.helper, "helper", "/usr/local/libexec/deskfork/guest-helper", "`program` that serves the desktop")
	flag.StringVar(&o.display, "display", ":0", "X `display` of the desktop")
	flag.StringVar(&o.xauthority, "xauthority", "", "`file` with the X server's key; default: found in the user's home or session")
	flag.DurationVar(&o.idle, "idle", time.Minute, "`time` without a sign of life after which the host's link is dropped")
	flag.BoolVar(&o.debug, "debug", false, "log more")
	show := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *show {
		fmt.Println("guestd", version, runtime.GOOS+"/"+runtime.GOARCH)
		return
	}
	const floor = 32 << 20 // of its heap, in bytes
	heap.Calm(floor)
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, log); err != nil {
		log.Error("guestd ends", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, log *slog.Logger) error {
	allow, err := networks(o.allow)
	if err != nil {
		return err
	}
	if _, err := user.Lookup(o.user); err != nil {
		log.Warn("default user does not exist; running programs as the present one", "user", o.user)
		o.user = ""
	}
	cfg := guestd.Config{
		Token: func() (string, error) { return readToken(o.config) },
		Allow: allow, Logger: log, Version: version, User: o.user,
		Timing: mux.Timing{Idle: o.idle, Write: o.idle},
		Exec: exec.Config{
			Cgroup: exec.UsableCgroup(), Shield: account.NewShield(), FixedAddresses: hypervisor.Name() == hypervisor.TCG,
		},
		System: system.Config{Kernel: system.Host{}, LetGo: system.LetGo, BootTimes: system.BootTimes},
	}
	var srv *guestd.Server
	desktop(&cfg, o, log, func() map[string]string { return srv.Env() })
	if srv, err = guestd.New(cfg); err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("open link port: %w", err)
	}
	log.Info("guestd serves", "address", ln.Addr(), "version", version, "user", o.user, "cgroup", cfg.Exec.Cgroup)
	return srv.Run(ctx, ln)
}

func networks(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("read --allow: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// readToken reads the configuration that the host handed to the machine.
func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read configuration: %w", err)
	}
	var c guest.Config
	if err := json.Unmarshal(b, &c); err != nil {
		return "", fmt.Errorf("read configuration %s: %w", path, err)
	}
	if c.Token == "" {
		return "", errors.New("configuration " + path + " holds no token")
	}
	return c.Token, nil
}
