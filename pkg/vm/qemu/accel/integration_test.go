//go:build integration

package accel_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
)

func TestRealProbe(t *testing.T) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	cfg := accel.Config{QEMU: qemu, CPU: argv.CPUModel}
	p := accel.New(cfg)
	o := p.Probe(t.Context(), vm.AccelTCG)
	t.Logf("%+v", o)
	if !o.OK {
		t.Errorf("emulation does not run: %s", o.Detail)
	}
	o = p.Probe(t.Context(), vm.AccelKVM)
	t.Logf("%+v", o)
	r, err := p.Resolve(t.Context(), vm.AccelAuto)
	t.Logf("auto: %+v, %v", r, err)
	if want := map[bool]vm.Accelerator{true: vm.AccelKVM, false: vm.AccelTCG}[o.OK]; err != nil || r.Accelerator != want {
		t.Errorf("auto = %s, %v; want %s", r.Accelerator, err, want)
	}
	if os.Geteuid() != 0 {
		return
	}
	cfg.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	if o := accel.New(cfg).Probe(t.Context(), vm.AccelTCG); !o.OK {
		t.Errorf("emulation as another user: %s", o.Detail)
	}
	if o := accel.New(cfg).Probe(t.Context(), vm.AccelKVM); o.OK || !strings.Contains(o.Detail, "KVM") {
		st, err := os.Stat("/dev/kvm")
		t.Logf("kvm as another user: %+v (%v, %v)", o, st, err)
	}
}
