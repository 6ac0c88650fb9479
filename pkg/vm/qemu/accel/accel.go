// Package accel finds out which accelerator really runs guests. A device node
// that opens proves nothing: on some hosts /dev/kvm opens, machines can be made
// and real-mode code runs, and a stock kernel then stands still for ever. So a
// tiny guest (probe.S) must reach 64-bit long mode with paging and finish a
// loop of 2·10⁸ iterations there within three seconds.
package accel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// kvmDevice is what hardware acceleration needs.
const kvmDevice = "/dev/kvm"

// ErrNone means that no accelerator finished the probe.
var ErrNone = errors.New("no accelerator runs guests")

// Config says how to probe.
type Config struct {
	QEMU    string // program
	Version string // of QEMU; part of the cache's key
	CPU     string // model of the machines to come
	// Cache is a file that keeps the result for this boot of the host; empty:
	// probe every time.
	Cache string
	// Credential of the machines to come; nil: our own. A device that only
	// root may open is no use to a machine that is not root.
	Credential *syscall.Credential
	Logger     *slog.Logger // nil: silent
}

// Outcome is the result of one probe.
type Outcome struct {
	Accelerator vm.Accelerator `json:"accelerator"`
	OK          bool           `json:"ok"`
	Detail      string         `json:"detail"` // what was measured, or why it did not run
}

// Result is what was chosen and why.
type Result struct {
	Accelerator vm.Accelerator `json:"accelerator"`
	Reason      string         `json:"reason"`
	Outcomes    []Outcome      `json:"outcomes"`
	Cached      bool           `json:"-"` // measured earlier in this boot
}

// Prober chooses an accelerator.
type Prober struct{ cfg Config }

// New returns a prober; it starts nothing.
func New(cfg Config) *Prober {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Prober{cfg}
}

// Resolve turns want into an accelerator. auto is the first of kvm and tcg that
// passed the probe; a named one is probed too, and refused with ErrNone when it
// does not run.
func (p *Prober) Resolve(ctx context.Context, want vm.Accelerator) (Result, error) {
	candidates := []vm.Accelerator{want}
	if want == vm.AccelAuto || want == "" {
		want = vm.AccelAuto
		candidates = []vm.Accelerator{vm.AccelKVM, vm.AccelTCG}
	}
	key, err := p.key(want)
	if err != nil {
		return Result{}, err
	}
	if r, ok := p.load(key); ok {
		return r, nil
	}
	var r Result
	for _, acc := range candidates {
		o := p.Probe(ctx, acc)
		if err := ctx.Err(); err != nil {
			return Result{}, fmt.Errorf("probe accelerator %s: %w", acc, err)
		}
		p.cfg.Logger.Info("accelerator probed", "accelerator", acc, "ok", o.OK, "detail", o.Detail)
		r.Outcomes = append(r.Outcomes, o)
		if o.OK {
			r.Accelerator = acc
			break
		}
	}
	r.Reason = reason(r.Outcomes)
	if r.Accelerator == "" {
		return r, fmt.Errorf("%w: %s", ErrNone, r.Reason)
	}
	if err := p.store(key, r); err != nil {
		p.cfg.Logger.Warn("accelerator result not kept", "error", err)
	}
	return r, nil
}

func reason(outcomes []Outcome) string {
	parts := make([]string, len(outcomes))
	for i, o := range outcomes {
		parts[i] = string(o.Accelerator) + ": " + o.Detail
	}
	return strings.Join(parts, "; ")
}

// Probe runs the probe guest under acc. The QEMU that it starts has ended when
// it returns.
func (p *Prober) Probe(ctx context.Context, acc vm.Accelerator) Outcome {
	detail, err := p.probe(ctx, acc)
	if err != nil {
		return Outcome{Accelerator: acc, Detail: err.Error()}
	}
	return Outcome{Accelerator: acc, OK: true, Detail: detail}
}

func (p *Prober) probe(ctx context.Context, acc vm.Accelerator) (string, error) {
	if acc == vm.AccelKVM {
		if _, err := os.Stat(kvmDevice); err != nil {
			return "", fmt.Errorf("look for %s: %w", kvmDevice, err)
		}
	}
	guest, err := blob()
	if err != nil {
		return "", err
	}
	defer guest.Close()
	lim := limitsOf(acc)
	ctx, cancel := context.WithTimeout(ctx, lim.start+lim.loop)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.cfg.QEMU, p.args(acc)...)
	cmd.ExtraFiles = []*os.File{guest}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.cfg.Credential}
	cmd.Env = []string{"LC_ALL=C"}
	return watch(ctx, cmd, lim)
}

// args: the guest is descriptor 3.
func (p *Prober) args(acc vm.Accelerator) []string {
	return []string{
		"-name", "deskfork-accelerator-probe", "-no-user-config", "-nodefaults",
		"-machine", "q35,vmport=off,smm=off", "-accel", string(acc), "-cpu", p.cfg.CPU,
		"-m", "64M", "-display", "none", "-monitor", "none", "-no-reboot",
		"-chardev", "stdio,id=marks,signal=off", "-device", "isa-debugcon,iobase=0xe9,chardev=marks",
		"-device", "isa-debug-exit,iobase=0x501,iosize=1",
		"-kernel", "/proc/self/fd/3",
	}
}

type limits struct {
	start time.Duration // from the process's start to the start marker
	loop  time.Duration // from the start marker to the end marker
}

// limitsOf: only hardware has to prove speed. Emulation always runs; it is
// given the time that a busy host needs.
func limitsOf(acc vm.Accelerator) limits {
	if acc == vm.AccelKVM {
		return limits{start: 10 * time.Second, loop: 3 * time.Second}
	}
	return limits{start: 30 * time.Second, loop: 30 * time.Second}
}
