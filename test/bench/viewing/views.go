package viewing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// views measures what people see of a desktop on the viewer's page, and on Debian's
// noVNC, which a websockify joins to QEMU's own VNC server of the same machine.
type views struct {
	daemon *harness.Daemon
	desk   *client.Desktop
	meter  *Meter
	novnc  *exec.Cmd
	port   int // of websockify
	span   time.Duration
	cfg    Config
}

// Config is what is measured, and where it is told.
type Config struct {
	Bin, Data string // vmhost, and the directory that has the image
	Parts     []string
	Quick     bool
	Out       io.Writer
	// Line prints a series, and where asked its ratio to the first.
	Line func(name string, times, first []time.Duration, compare bool)
}

// Parts are what can be measured alone, in the order of their run.
func Parts() []string { return []string{"late", "motion", "frames", "costs"} }

// Run measures, and prints.
func Run(ctx context.Context, cfg Config) (err error) {
	v := &views{cfg: cfg, span: 15 * time.Second}
	if cfg.Quick {
		v.span = 4 * time.Second
	}
	if v.meter, err = Open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.meter.Close()) }()
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(cfg.Out, "load of the machine at the begin: %s", load)
	}
	if v.daemon, err = harness.Kept(ctx, cfg.Bin, cfg.Data); err != nil {
		return err
	}
	defer v.daemon.Remove()
	if err := v.daemon.Start(ctx); err != nil {
		return err
	}
	defer v.daemon.Stop()
	v.desk, err = v.daemon.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce"},
		client.Until(api.StageDrawn), client.Within(harness.BootTimeout))
	if err != nil {
		return err
	}
	defer v.desk.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	end, err := v.peer(ctx)
	if err != nil {
		return err
	}
	defer end()
	return v.guest(ctx)
}

// peer starts websockify, with noVNC's pages.
func (v *views) peer(ctx context.Context) (end func(), err error) {
	socks, err := filepath.Glob(filepath.Join(v.daemon.Run, "*", "vnc"))
	if more, _ := filepath.Glob(filepath.Join(v.daemon.Run, "*", "*", "vnc")); err == nil {
		socks = append(socks, more...)
	}
	if err != nil || len(socks) != 1 {
		return nil, fmt.Errorf("sockets of QEMU's VNC server: %v, %w", socks, err)
	}
	if v.port, err = harness.FreePort(ctx); err != nil {
		return nil, err
	}
	v.novnc = exec.CommandContext(ctx, "websockify", "--web", "/usr/share/novnc", "--unix-target", socks[0], strconv.Itoa(v.port))
	v.novnc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it forks for each connection
	if err := v.novnc.Start(); err != nil {
		return nil, fmt.Errorf("start websockify (Debian's package novnc): %w", err)
	}
	return func() {
		_ = syscall.Kill(-v.novnc.Process.Pid, syscall.SIGTERM)
		_ = v.novnc.Wait() // it was told to
	}, nil
}

// side is one of the two that are compared.
type side struct {
	name string
	url  func(context.Context) (string, error)
	cpu  func() (time.Duration, error)
}

func (v *views) sides() [2]side {
	return [2]side{
		{"viewer", v.link, func() (time.Duration, error) { return used(pid, v.daemon.PID()) }},
		{"noVNC", func(context.Context) (string, error) {
			return fmt.Sprintf("http://127.0.0.1:%d/vnc_lite.html?path=websockify", v.port), nil
		}, func() (time.Duration, error) { return used(group, v.novnc.Process.Pid) }},
	}
}

func (v *views) link(ctx context.Context) (string, error) {
	t, err := v.desk.Tickets().Create(ctx, api.CreateTicket{Kind: api.TicketView, Role: "control", TTLS: 3600})
	return t.URL, err
}

// Fields of /proc/PID/stat behind the name, by which processes are found; pid is none.
const (
	pid   = -1
	group = 2
)

// used is the processor time of a process or of a process group, with that of their
// children that have ended.
func used(by, id int) (time.Duration, error) {
	files := []string{fmt.Sprintf("/proc/%d/stat", id)}
	if by == group {
		var err error
		if files, err = filepath.Glob("/proc/[0-9]*/stat"); err != nil {
			return 0, err
		}
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil && by == group {
			continue // it has ended
		} else if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 15 || by == group && fields[group] != strconv.Itoa(id) {
			continue
		}
		for _, field := range fields[11:15] {
			n, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum, nil
}

// guest compares the two at the guest's screen, one after the other in each scene.
func (v *views) guest(ctx context.Context) error {
	if _, err := v.desk.Files().Write(ctx, "/tmp/glass.py", bytes.NewReader(glass), client.WriteOptions{}); err != nil {
		return err
	}
	for i, run := range []func(context.Context) error{v.late, v.motion, v.frames, v.costs} {
		name := Parts()[i]
		if !slices.Contains(v.cfg.Parts, name) {
			continue
		}
		if err := run(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// show starts glass.py, and what else a scene has; the returned function ends both.
func (v *views) show(ctx context.Context, fps int, more ...string) (end func() error, err error) {
	args := append([]string{"python3", "/tmp/glass.py", "/tmp/glass.log", strconv.Itoa(fps)}, more...)
	if _, err := v.desk.Exec(ctx, "rm", "-f", "/tmp/glass.log"); err != nil {
		return nil, err
	}
	if _, err := v.desk.Launch(ctx, api.Launch{Argv: args}); err != nil {
		return nil, err
	}
	end = func() error {
		_, err := v.desk.Exec(context.WithoutCancel(ctx), "pkill", "-f", "glass.py")
		return err
	}
	for {
		res, err := v.desk.Exec(ctx, "cat", "/tmp/glass.log")
		if err != nil {
			return nil, errors.Join(err, end())
		}
		if strings.HasPrefix(string(res.Stdout), "ready") {
			return end, nil
		}
		if err := sleep.For(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
