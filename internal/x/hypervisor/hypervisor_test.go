package hypervisor_test

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/deskfork/deskfork/internal/x/hypervisor"
)

// TestName compares with what the kernel found.
func TestName(t *testing.T) {
	got := hypervisor.Name()
	flags, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" {
		if got != "" && runtime.GOARCH != "amd64" {
			t.Errorf("%q", got)
		}
		return
	}
	if below := bytes.Contains(flags, []byte(" hypervisor")); below != (got != "") {
		t.Errorf("%q, where the kernel says that a hypervisor is there: %t", got, below)
	}
}
