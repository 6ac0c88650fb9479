package argv_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
)

var update = flag.Bool("update", false, "write the golden files")

func machine() argv.Machine {
	shape, _ := vm.ShapeNamed("medium")
	return argv.Machine{
		Name: "d1", UUID: "00000000-0000-5000-8000-000000000001",
		Accelerator: vm.AccelTCG, Shape: shape,
		RAM:       "/data/ram",
		Boot:      vm.Boot{Kernel: "/img/vmlinuz", Initrd: "/img/initrd", Cmdline: "root=/dev/vda quiet"},
		System:    argv.Drive{Path: "/data/system.qcow2", Volatile: true},
		Workspace: argv.Drive{Path: "/data/workspace.qcow2"},
		Width:     1280, Height: 800,
		Net:    &argv.Net{Local: "/run/g", Remote: "/run/h", MAC: vm.GuestMAC},
		Config: "/run/config", QMP: "/run/qmp", VNC: "/run/vnc", Serial: "/data/serial.log",
		Sandbox: true,
	}
}

func TestBuildGolden(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*argv.Machine){
		"tcg":   func(*argv.Machine) {},
		"kvm":   func(m *argv.Machine) { m.Accelerator = vm.AccelKVM },
		"clone": func(m *argv.Machine) { m.Incoming, m.Boot = true, vm.Boot{} },
		"bare": func(m *argv.Machine) {
			m.Net, m.Config, m.Boot, m.Sandbox, m.TBSizeMiB = nil, "", vm.Boot{}, false, 32
		},
		"commas": func(m *argv.Machine) {
			m.Name, m.QMP, m.RAM, m.System.Path = "a,b", "/run/q,m", "/data/r,share=on", "/data/s,x"
			m.Boot.Kernel = "/img/k,1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine()
			change(&m)
			got := lines(argv.Build(m))
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Fatalf("arguments (-want +got):\n%s", d)
			}
		})
	}
}

// lines puts every option on a line of its own.
func lines(args []string) string {
	var b strings.Builder
	for i, a := range args {
		switch {
		case i == 0:
		case strings.HasPrefix(a, "-"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(a)
	}
	return b.String() + "\n"
}

func TestBuildIsPure(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(argv.Build(machine()), argv.Build(machine())); d != "" {
		t.Fatalf("two builds differ:\n%s", d)
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	args := argv.Build(machine())
	if v, ok := argv.Value(args, "-uuid"); !ok || v != machine().UUID {
		t.Fatalf("Value(-uuid) = %q, %v", v, ok)
	}
	if v, ok := argv.Value(args, "-nope"); ok {
		t.Fatalf("Value(-nope) = %q", v)
	}
	if v, ok := argv.Value([]string{"-uuid"}, "-uuid"); ok {
		t.Fatalf("Value of a last option = %q", v)
	}
}
