//go:build linux

package pages_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	if err := pages.Probe(); err != nil {
		t.Error(err)
	}
}

// nobody is another user, for a test of root's.
func nobody(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
}

// TestForeignProcess: a user who is not root asks for the memory of process 1,
// and is told why not. Root may look at another user's.
func TestForeignProcess(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		if err := pages.ProbeAs(nobody(t)); err != nil {
			t.Errorf("ProbeAs nobody: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestForeignProcess$", "-test.v")
		cmd.SysProcAttr = nobody(t)
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	_, err := pages.Find(1, "/nowhere")
	refused(t, "Find", err)
	_, err = pages.Changed(1, pages.Region{Addr: page, Size: page})
	refused(t, "Changed", err)
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") && !strings.Contains(err.Error(), "hidepid") {
		t.Errorf("%s in process 1 = %v, want a refusal with a reason", what, err)
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		scope string
		may   bool
		want  string
	}{
		{"", false, "another user"},
		{"0", false, "another user"},
		{"1", false, "ptrace_scope is 1"},
		{"2", false, "ptrace_scope is 2"},
		{"3", false, "ptrace_scope is 3"},
		{"3", true, "ptrace_scope is 3"},
		{"2", true, "seccomp"},
	} {
		if got := pages.Reason(tc.scope, tc.may); !strings.Contains(got, tc.want) {
			t.Errorf("Reason(%q, %v) = %q, want it to say %q", tc.scope, tc.may, got, tc.want)
		}
	}
}

func TestMayTrace(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{
		"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n": false,
		"CapEff:\t0000000000080000\n":                                      true,
		"CapEff:\t000001fffff7ffff\n":                                      false,
		"CapEff:\twhat\n":                                                  false,
		"":                                                                 false,
	} {
		if got := pages.MayTrace(status); got != want {
			t.Errorf("MayTrace(%q) = %v", status, got)
		}
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	for mounts, want := range map[string]string{
		"22 1 0:20 / /proc rw,nosuid - proc proc rw\n":                                                   "",
		"22 1 0:20 / /proc rw,nosuid - proc proc rw,hidepid=0\n":                                         "",
		"21 1 0:19 / /sys rw - sysfs sysfs rw\n22 1 0:20 / /proc rw,nosuid - proc proc rw,hidepid=2\n":   "hidepid=2",
		"22 1 0:20 / /proc rw,nosuid - proc proc rw,gid=5,hidepid=invisible\n23 22 0:1 / /proc/x rw - a": "hidepid=invisible",
		"": "",
	} {
		if got := pages.Hidden(mounts); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("Hidden(%q) = %q, want %q", mounts, got, want)
		}
	}
}
