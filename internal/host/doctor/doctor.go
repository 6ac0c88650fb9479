// Package doctor examines a host: what is there, what is missing, what that
// costs, and how to mend it. It needs no running daemon.
package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Levels of a check.
const (
	LevelOK      = "ok"
	LevelInfo    = "info"
	LevelWarning = "warning"
	LevelError   = "error"
)

// Config says what is examined. Zero members are left out.
type Config struct {
	DataDir string
	// RuntimeDir is where sockets lie.
	RuntimeDir string

	Provider vm.Provider
	// Images lists the stored images. Nil: not examined.
	Images func(ctx context.Context) ([]api.Image, error)
	// Usage reads what the host has left. Nil: the kernel's numbers.
	Usage func() (admission.Usage, error)
	// Address is where the daemon listens or will listen, host:port.
	Address string
	// Listening says that the daemon has the address, so it is not tried.
	Listening   bool
	ExternalURL *url.URL
	TLS         bool
	// Tools are the programs that an image build needs, each with what it is for.
	// Nil: the ones of this project.
	Tools []Tool
	// LookPath finds a program. Nil: in PATH and the sbin directories.
	LookPath func(string) (string, error)
	Now      func() time.Time // nil: time.Now
}

// Tool is a program that an image build needs.
type Tool struct {
	Name    string
	Package string // of Debian
	For     string
}

// Tools are what image builds need.
func Tools() []Tool {
	return []Tool{
		{"mmdebstrap", "mmdebstrap", "fetch Debian into a directory"},
		{"mke2fs", "e2fsprogs", "make the system disk"},
		{"newuidmap", "uidmap", "build as an ordinary user"},
		{"newgidmap", "uidmap", "build as an ordinary user"},
		{"qemu-img", "qemu-utils", "make and look at disks"},
	}
}

// Examine runs every check. The report is OK when no check is an error.
func Examine(ctx context.Context, cfg Config) api.Doctor {
	if cfg.LookPath == nil {
		cfg.LookPath = lookPath
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tools == nil {
		cfg.Tools = Tools()
	}
	if cfg.Usage == nil {
		cfg.Usage = func() (admission.Usage, error) { return admission.HostUsage(existing(cfg.DataDir)) }
	}
	var checks []api.Check
	if cfg.Provider != nil {
		checks = append(checks, provider(ctx, cfg.Provider)...)
	}
	if cfg.DataDir != "" {
		checks = append(checks, dataDir(cfg.DataDir))
	}
	if cfg.RuntimeDir != "" {
		checks = append(checks, runtimeDir(cfg.RuntimeDir))
	}
	checks = append(checks, resources(cfg.Usage)...)
	if cfg.Images != nil {
		checks = append(checks, images(ctx, cfg.Images))
	}
	if cfg.Address != "" {
		checks = append(checks, port(ctx, cfg), exposure(cfg))
	}
	checks = append(checks, clock(cfg.Now()))
	for _, t := range cfg.Tools {
		checks = append(checks, tool(cfg.LookPath, t))
	}
	report := api.Doctor{OK: true, Checks: checks}
	for _, c := range checks {
		if c.Level == LevelError {
			report.OK = false
		}
	}
	return report
}

func ok(name, format string, args ...any) api.Check {
	return api.Check{Name: name, OK: true, Level: LevelOK, Detail: fmt.Sprintf(format, args...)}
}

func fault(level, name, detail, cost, fix string) api.Check {
	return api.Check{Name: name, OK: level == LevelInfo, Level: level, Detail: detail, Cost: cost, Fix: fix}
}

func provider(ctx context.Context, p vm.Provider) []api.Check {
	caps, err := p.Capabilities(ctx)
	if err != nil {
		return []api.Check{fault(LevelError, "provider", err.Error(), "no desktop can start", "install qemu-system-x86 and try again")}
	}
	checks := []api.Check{ok("provider", "%s %s", caps.Provider, caps.Version)}
	accel := ok("accelerator", "%s: %s", caps.Accelerator, orNone(caps.AcceleratorReason))
	if caps.Accelerator == vm.AccelTCG {
		accel = fault(LevelWarning, "accelerator", "tcg: "+orNone(caps.AcceleratorReason),
			"vCPUs run in software, about eight times slower; deadlines are stretched", "use a host whose /dev/kvm runs a 64-bit guest")
	}
	// A provider that examines accelerators itself knows more.
	if !slices.ContainsFunc(caps.Limits, func(p vm.Probe) bool { return p.Name == accel.Name }) {
		checks = append(checks, accel)
	}
	for _, probe := range caps.Limits {
		c := api.Check{Name: probe.Name, OK: probe.OK, Level: LevelOK, Detail: probe.Detail, Cost: probe.Cost, Fix: probe.Fix}
		if !probe.OK {
			c.Level = LevelWarning
		}
		checks = append(checks, c)
	}
	return checks
}

func orNone(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}

// existing is dir, or the nearest directory above that exists.
func existing(dir string) string {
	for dir != "" && dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "/"
}

func dataDir(dir string) api.Check {
	const name = "data-directory"
	info, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return fault(LevelInfo, name, dir+" does not exist yet", "", "it is made when the daemon starts")
	}
	if err != nil {
		return fault(LevelError, name, err.Error(), "nothing can be kept", "make it readable")
	}
	if !info.IsDir() {
		return fault(LevelError, name, dir+" is no directory", "nothing can be kept", "name another with --data-dir")
	}
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return fault(LevelError, name, err.Error(), "nothing can be kept", "make it writable for the user of the daemon")
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	if info.Mode().Perm()&0o002 != 0 {
		return fault(LevelWarning, name, fmt.Sprintf("%s has mode %04o", dir, info.Mode().Perm()),
			"any user of this host can put files there", "chmod o-w "+dir)
	}
	return ok(name, "%s, mode %04o", dir, info.Mode().Perm())
}

// sessions is where systemd keeps what goes with the last session of a user.
const sessions = "/run/user/"

func runtimeDir(dir string) api.Check {
	const name = "runtime-directory"
	if strings.HasPrefix(filepath.Clean(dir)+"/", sessions) {
		return fault(LevelWarning, name, "sockets lie in "+dir+", which is removed at the end of your last session",
			"desktops that run on after it cannot be reached any more",
			"loginctl enable-linger, or name a directory that stays with serve --runtime-dir")
	}
	return ok(name, "%s", dir)
}

// Amounts below which a check warns, in bytes.
const (
	gib       = 1 << 30
	lowMemory = 2 * gib
	lowDisk   = 8 * gib
)

func resources(usage func() (admission.Usage, error)) []api.Check {
	u, err := usage()
	if err != nil {
		return []api.Check{fault(LevelWarning, "memory", err.Error(), "admission cannot see what is left", "")}
	}
	say := func(free, total int64) string {
		return fmt.Sprintf("%.1f GiB of %.1f GiB available", float64(free)/gib, float64(total)/gib)
	}
	memory := ok("memory", "%s", say(u.MemoryAvailable, u.MemoryTotal))
	if u.MemoryAvailable < lowMemory {
		memory = fault(LevelWarning, "memory", say(u.MemoryAvailable, u.MemoryTotal), "hardly one desktop fits", "free memory, or use a bigger host")
	}
	disk := ok("disk", "%s", say(u.DiskAvailable, u.DiskTotal))
	if u.DiskAvailable < lowDisk {
		disk = fault(LevelWarning, "disk", say(u.DiskAvailable, u.DiskTotal), "an image build or a desktop may find the disk full", "free space where the data directory lies")
	}
	return []api.Check{memory, disk}
}

func images(ctx context.Context, list func(context.Context) ([]api.Image, error)) api.Check {
	const name = "images"
	all, err := list(ctx)
	if err != nil {
		return fault(LevelError, name, err.Error(), "no desktop can be created", "see the data directory")
	}
	var tags []string
	for _, i := range all {
		tags = append(tags, i.Tags...)
	}
	if len(all) == 0 {
		return fault(LevelWarning, name, "no image is there", "no desktop can be created", "vmhost image build debian-xfce")
	}
	return ok(name, "%d: %s", len(all), strings.Join(tags, ", "))
}

func port(ctx context.Context, cfg Config) api.Check {
	const name = "address"
	if cfg.Listening {
		return ok(name, "listening on %s", cfg.Address)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return fault(LevelWarning, name, err.Error(), "the daemon cannot listen there, unless it is the one that does", "stop what listens there, or name another with --listen")
	}
	_ = l.Close()
	return ok(name, "%s is free", cfg.Address)
}

// exposure says what browsers and eavesdroppers make of the address.
func exposure(cfg Config) api.Check {
	const name = "origin"
	plain, where := !cfg.TLS, cfg.Address
	host, _, _ := net.SplitHostPort(cfg.Address)
	if u := cfg.ExternalURL; u != nil {
		plain, where, host = u.Scheme == "http", u.String(), u.Hostname()
	}
	ip, err := netip.ParseAddr(host)
	loopback := host == "localhost" || (err == nil && ip.IsLoopback())
	switch {
	case !plain:
		return ok(name, "%s is served over TLS", where)
	case loopback:
		return ok(name, "%s is on loopback: browsers treat it as secure", where)
	}
	return fault(LevelWarning, name, where+" is plain http and not on loopback",
		"tokens and pixels cross the network in the clear; browsers refuse WebCodecs, clipboard and keyboard lock on such an origin",
		"use --tls-cert and --tls-key, or a proxy with TLS and --external-url https://…")
}

// released is a day before which no clock can be right.
var released = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func clock(now time.Time) api.Check {
	if now.Before(released) {
		return fault(LevelError, "clock", "the clock says "+now.UTC().Format(time.RFC3339),
			"guests get their time from here; certificates will not verify", "set the clock, e.g. with timedatectl")
	}
	return ok("clock", "%s", now.UTC().Format(time.RFC3339))
}

// lookPath finds a program as builds do: also where an ordinary user's PATH does not look.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, name))
	}
	return path, err
}

func tool(look func(string) (string, error), t Tool) api.Check {
	name := "tool-" + t.Name
	path, err := look(t.Name)
	if err != nil {
		return fault(LevelWarning, name, t.Name+" is not installed", "images cannot be built here ("+t.For+")", "apt-get install "+t.Package)
	}
	return ok(name, "%s", path)
}
