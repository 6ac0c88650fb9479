package accel_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
)

// TestMain plays a QEMU when it is started as one. The CPU model says how it
// behaves under KVM; under TCG it always passes.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-name" && os.Args[2] == "deskfork-accelerator-probe" {
		syscall.Exit(fakeQEMU())
	}
	os.Exit(m.Run())
}

func fakeQEMU() int {
	arg := func(name string) string { return os.Args[slices.Index(os.Args, name)+1] }
	guest, err := os.ReadFile(arg("-kernel"))
	if err != nil || len(guest) < 100 {
		fmt.Fprintln(os.Stderr, "cannot read the guest:", err)
		return 1
	}
	how := arg("-cpu")
	if arg("-accel") == "tcg" && how != "none" {
		how = "passes"
	}
	switch how {
	case "passes":
		_, _ = os.Stdout.WriteString("SE")
		return 33
	case "stuck":
		_, _ = os.Stdout.WriteString("S")
		_ = unix.Pause() // until the prober kills us
		return 1
	case "lies":
		_, _ = os.Stdout.WriteString("SE")
		return 0
	case "mode":
		_, _ = os.Stdout.WriteString("!")
		return 35
	default:
		fmt.Fprintln(os.Stderr, "Could not access KVM kernel module")
		return 1
	}
}

func prober(t *testing.T, cpu string) (*accel.Prober, string) {
	t.Helper()
	cache := filepath.Join(t.TempDir(), "accel.json")
	return accel.New(accel.Config{QEMU: os.Args[0], Version: "1", CPU: cpu, Cache: cache}), cache
}

func TestProbeOutcomes(t *testing.T) {
	t.Parallel()
	for cpu, want := range map[string]string{
		"passes": "2e8 iterations in",
		"lies":   "want exit status 33",
		"mode":   "long mode not reached",
		"stuck":  "did not finish 2e8 iterations there: nothing within 3s",
		"none":   "Could not access KVM",
	} {
		t.Run(cpu, func(t *testing.T) {
			t.Parallel()
			p, _ := prober(t, cpu)
			acc := vm.AccelKVM
			if _, err := os.Stat("/dev/kvm"); err != nil {
				acc = "hvf" // any name that the fake takes for hardware
			}
			o := p.Probe(t.Context(), acc)
			if o.OK != (cpu == "passes") || !strings.Contains(o.Detail, want) {
				t.Fatalf("outcome %+v, want detail with %q", o, want)
			}
		})
	}
}

func TestResolveFallsBackAndRemembers(t *testing.T) {
	t.Parallel()
	p, cache := prober(t, "mode")
	first, err := p.Resolve(t.Context(), vm.AccelAuto)
	if err != nil || first.Accelerator != vm.AccelTCG || first.Cached {
		t.Fatalf("Resolve = %+v, %v; want tcg, measured", first, err)
	}
	if !strings.HasPrefix(first.Reason, "kvm: ") || !strings.Contains(first.Reason, "; tcg: ") {
		t.Fatalf("reason %q does not say why not kvm", first.Reason)
	}
	second, err := p.Resolve(t.Context(), vm.AccelAuto)
	if err != nil || !second.Cached || second.Reason != first.Reason {
		t.Fatalf("second Resolve = %+v, %v; want the cached one", second, err)
	}
	other := accel.New(accel.Config{QEMU: os.Args[0], Version: "2", CPU: "mode", Cache: cache})
	if r, err := other.Resolve(t.Context(), vm.AccelAuto); err != nil || r.Cached {
		t.Fatalf("another QEMU's Resolve = %+v, %v; want a new measurement", r, err)
	}
	if err := os.WriteFile(cache, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Resolve(t.Context(), vm.AccelAuto); err != nil || r.Cached {
		t.Fatalf("Resolve over a broken cache = %+v, %v", r, err)
	}
}

func TestResolveNone(t *testing.T) {
	t.Parallel()
	p, cache := prober(t, "none")
	if r, err := p.Resolve(t.Context(), vm.AccelAuto); !errors.Is(err, accel.ErrNone) {
		t.Fatalf("Resolve = %+v, %v; want ErrNone", r, err)
	}
	if _, err := os.Stat(cache); err == nil {
		t.Fatal("a failure was cached")
	}
	gone := accel.New(accel.Config{QEMU: "/nonexistent/qemu", CPU: "x"})
	if r, err := gone.Resolve(t.Context(), vm.AccelTCG); !errors.Is(err, accel.ErrNone) {
		t.Fatalf("Resolve without QEMU = %+v, %v; want ErrNone", r, err)
	}
}

// TestBlobMatchesSource assembles probe.S again where binutils are installed.
func TestBlobMatchesSource(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("probe.bin")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 32 || !bytes.Equal(want[:4], []byte{0x02, 0xb0, 0xad, 0x1b}) {
		t.Fatal("probe.bin has no multiboot header")
	}
	for _, tool := range []string{"as", "ld", "objcopy"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("binutils not installed: %v", err)
		}
	}
	dir := t.TempDir()
	obj, elf, bin := filepath.Join(dir, "o"), filepath.Join(dir, "elf"), filepath.Join(dir, "bin")
	for _, argv := range [][]string{
		{"as", "--32", "-o", obj, "probe.S"},
		{"ld", "-m", "elf_i386", "-Ttext", "0x100000", "-e", "start", "-o", elf, obj},
		{"objcopy", "-O", "binary", "-j", ".text", elf, bin},
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	got, err := os.ReadFile(bin)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("probe.bin is not what probe.S assembles to (%d and %d bytes, %v)", len(want), len(got), err)
	}
}
