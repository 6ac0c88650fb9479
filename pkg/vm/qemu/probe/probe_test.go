package probe_test

import (
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/probe"
)

// TestAccelerated: who may not open /dev/kvm is not sent to another host.
func TestAccelerated(t *testing.T) {
	for name, tc := range map[string]struct {
		chosen vm.Accelerator
		kvm    string
		err    error
		fix    string // empty: nothing to mend
	}{
		"kvm":        {vm.AccelKVM, "long mode after 5 ms", nil, ""},
		"shut":       {vm.AccelTCG, "QEMU ended (-accel kvm: failed to initialize kvm: Permission denied)", nil, "access to /dev/kvm"},
		"runs none":  {vm.AccelTCG, "long mode not reached", nil, "use a host"},
		"none works": {"", "long mode not reached", accel.ErrNone, "qemu-system-x86"},
	} {
		t.Run(name, func(t *testing.T) {
			r := accel.Result{Accelerator: tc.chosen, Outcomes: []accel.Outcome{{Accelerator: vm.AccelKVM, OK: tc.chosen == vm.AccelKVM, Detail: tc.kvm}}}
			got := probe.Accelerated(r, tc.err)
			if got.OK != (tc.fix == "") || !strings.Contains(got.Fix, tc.fix) || got.OK != (got.Cost == "") {
				t.Errorf("%+v, want a mend that says %q", got, tc.fix)
			}
		})
	}
}
