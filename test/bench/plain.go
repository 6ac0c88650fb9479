package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

// plain is the same machine as ours (image, devices, memory, accelerator) driven
// by QMP alone, as one would without this project: savevm and loadvm, migrate to
// a file and back. Exec goes through the same guestd, pictures through QEMU's
// own screendump, which is quicker than RFB.
type plain struct {
	dir string // sockets, memory, disks, state
	m   argv.Machine

	cmd     *exec.Cmd
	qmp     *qmp.Client
	network *vmnet.Network
	guest   *client.Client
	stop    func() // of the guest client
}

const plainToken = "bench"

// bootPlain boots until the desktop's windows are there.
func bootPlain(ctx context.Context, data string, accel vm.Accelerator) (_ *plain, err error) {
	dir, err := os.MkdirTemp(data, "plain-")
	if err != nil {
		return nil, err
	}
	sockets, err := os.MkdirTemp("/tmp", "bp")
	if err != nil {
		return nil, err
	}
	p := &plain{dir: dir, stop: func() {}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	store, err := image.Open(image.Config{Dir: filepath.Join(data, "images")})
	if err != nil {
		return nil, err
	}
	img, err := adapter.Images{Store: store}.Resolve(ctx, "debian-xfce")
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(guest.Config{Token: plainToken})
	if err != nil {
		return nil, err
	}
	shape, _ := vm.ShapeNamed("medium")
	p.m = argv.Machine{
		Name: "bench-plain", UUID: "00000000-0000-4000-8000-000000000001", Accelerator: accel, Shape: shape,
		RAM: filepath.Join(dir, "ram"), Boot: img.Boot, Width: img.Display.Width, Height: img.Display.Height,
		System:    argv.Drive{Path: filepath.Join(dir, "system.qcow2"), Volatile: true},
		Workspace: argv.Drive{Path: filepath.Join(dir, "workspace.qcow2"), Volatile: true},
		Net:       &argv.Net{Local: filepath.Join(sockets, "g"), Remote: filepath.Join(sockets, "h"), MAC: vm.GuestMAC},
		Config:    filepath.Join(dir, "config.json"), QMP: filepath.Join(sockets, "qmp"), VNC: filepath.Join(sockets, "vnc"),
		Serial: filepath.Join(dir, "serial.log"),
	}
	err = errors.Join(
		os.WriteFile(p.m.Config, config, 0o600),
		tool(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", img.System.Base, "-F", img.System.BaseFormat, p.m.System.Path),
		tool(ctx, "qemu-img", "create", "-q", "-f", "qcow2", p.m.Workspace.Path, "1G"),
	)
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.drawn(ctx); err != nil {
		return nil, err
	}
	return p, sleep.For(ctx, 10*time.Second) // until it is at rest
}

// drawn waits for the desktop and its panel: a session comes a while after guestd.
func (p *plain) drawn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		list, err := p.guest.Desktop.Windows(ctx)
		if err == nil && len(list) >= 2 {
			return nil
		}
		if waited := sleep.For(ctx, time.Second); waited != nil {
			return fmt.Errorf("wait for the plain machine's windows: %w, %w", waited, err)
		}
	}
}

func tool(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// start runs a QEMU process with further arguments, and everything around it.
func (p *plain) start(ctx context.Context, more ...string) (err error) {
	_ = os.Remove(p.m.QMP) // of the process before
	if p.network == nil {
		p.network, err = vmnet.Open(vmnet.Config{Local: p.m.Net.Local, Remote: p.m.Net.Remote, Mode: vm.NetworkOpen})
		if err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(p.dir, "qemu.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command("qemu-system-x86_64", append(argv.Build(p.m), more...)...) //nolint:noctx // quit ends it
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for {
		const long = 10 * time.Minute // savevm answers at its end
		if p.qmp, err = qmp.Dial(ctx, p.m.QMP, qmp.Config{Timeout: long}); err == nil {
			break
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	p.guest = client.New(client.Config{
		Token: plainToken, Scale: 3,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return p.network.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", vm.GuestIP, guest.Port))
		},
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.guest.Run(running) }() // ends with running alone
	p.stop = func() { cancel(); <-ended }
	return nil
}

// quit ends the process; disks and files stay.
func (p *plain) quit(ctx context.Context) error {
	p.stop()
	p.stop = func() {}
	_ = p.qmp.Execute(ctx, "quit", nil, nil) // it may end before it answers
	_ = p.qmp.Close()
	return p.cmd.Wait()
}

// usable returns when an exec has answered and a screenshot has come.
func (p *plain) usable(ctx context.Context) error {
	if _, err := p.guest.Exec.Output(ctx, guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
		return err
	}
	return p.qmp.Execute(ctx, "screendump", map[string]any{"filename": filepath.Join(p.dir, "screen.png"), "format": "png"}, nil)
}

func (p *plain) hmp(ctx context.Context, line string) error {
	if said, err := p.qmp.HMP(ctx, line); err != nil || said != "" {
		return fmt.Errorf("%s: %w: %s", line, err, said)
	}
	return nil
}

// save is savevm: memory, devices and disks of this instant into the disk.
func (p *plain) save(ctx context.Context) error { return p.hmp(ctx, "savevm base") }

// load starts a new process from what save has kept.
func (p *plain) load(ctx context.Context) error {
	if err := p.start(ctx, "-loadvm", "base"); err != nil {
		return err
	}
	return p.usable(ctx)
}

func (p *plain) state() string { return filepath.Join(p.dir, "state") }

// migrate writes the machine to a file, and returns for how long it stood still.
func (p *plain) migrate(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if err := p.qmp.Execute(ctx, "stop", nil, nil); err != nil {
		return 0, err
	}
	if err := p.unlimited(ctx); err != nil {
		return 0, err
	}
	if err := p.qmp.Execute(ctx, "migrate", map[string]any{"uri": "exec:cat > " + p.state()}, nil); err != nil {
		return 0, err
	}
	if err := p.migrated(ctx, "query-migrate", "completed"); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	// The saved instant is the child's; the parent would go on here.
	return took, nil
}

// unlimited takes the limit of bandwidth off, which is meant for networks.
func (p *plain) unlimited(ctx context.Context) error {
	return p.qmp.Execute(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40}, nil)
}

// migrated waits until query answers with a status.
func (p *plain) migrated(ctx context.Context, query, want string) error {
	for {
		var now struct {
			Status string `json:"status"`
			Desc   string `json:"error-desc"`
		}
		if err := p.qmp.Execute(ctx, query, nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case want:
			return nil
		case "failed":
			return fmt.Errorf("migrate: %s", now.Desc)
		}
		if err := sleep.For(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// arrive starts a new process from what migrate has written.
func (p *plain) arrive(ctx context.Context) error {
	p.m.Incoming = true
	err := p.start(ctx)
	p.m.Incoming = false
	if err != nil {
		return err
	}
	if err := p.qmp.Execute(ctx, "migrate-incoming", map[string]any{"uri": "exec:cat " + p.state()}, nil); err != nil {
		return err
	}
	if err := p.migrated(ctx, "query-migrate", "completed"); err != nil {
		return err
	}
	if err := p.qmp.Execute(ctx, "cont", nil, nil); err != nil {
		return err
	}
	return p.usable(ctx)
}

func (p *plain) close() {
	p.stop()
	if p.cmd != nil && p.cmd.Process != nil && p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	if p.network != nil {
		_ = p.network.Close()
	}
	_ = os.RemoveAll(p.dir)
	if p.m.QMP != "" {
		_ = os.RemoveAll(filepath.Dir(p.m.QMP))
	}
}

// hold starts a program that holds memory, and returns when it does.
func (p *plain) hold(ctx context.Context, id string, mib int) error {
	if _, err := p.guest.Exec.Start(ctx, guest.ExecSpec{ID: guest.ExecID(id), Argv: dirty(mib)}); err != nil {
		return err
	}
	for {
		st, err := p.guest.Exec.Status(ctx, guest.ExecID(id))
		if err != nil {
			return fmt.Errorf("hold memory: %w", err)
		}
		if !st.Running {
			return fmt.Errorf("%w: %+v", errEnded, st)
		}
		if st.Out > 0 {
			return nil
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// forkOnce is what stands for a fork: out to a file and back. The end of the
// process between is not counted.
func (p *plain) forkOnce(ctx context.Context) (stood, took time.Duration, err error) {
	if stood, err = p.migrate(ctx); err != nil {
		return 0, 0, err
	}
	if err := p.quit(ctx); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := p.arrive(ctx); err != nil {
		return 0, 0, err
	}
	return stood, stood + time.Since(begin), nil
}
