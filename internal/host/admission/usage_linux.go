package admission

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// HostUsage reads the kernel's numbers for memory, and for the file system that
// holds dir.
func HostUsage(dir string) (Usage, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Usage{}, fmt.Errorf("read memory: %w", err)
	}
	u, err := ParseMeminfo(text)
	if err != nil {
		return Usage{}, err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return Usage{}, fmt.Errorf("read disk space of %s: %w", dir, err)
	}
	u.DiskTotal = int64(fs.Blocks) * fs.Bsize
	u.DiskAvailable = int64(fs.Bavail) * fs.Bsize
	return u, nil
}

// ParseMeminfo reads the two lines of /proc/meminfo that matter.
func ParseMeminfo(text []byte) (Usage, error) {
	var u Usage
	want := map[string]*int64{"MemTotal": &u.MemoryTotal, "MemAvailable": &u.MemoryAvailable}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		dest, ok := want[name]
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil || kib < 0 || kib > 1<<50 {
			return Usage{}, fmt.Errorf("read memory: line %q is not a size in kB", lines.Text())
		}
		*dest = kib << 10
		delete(want, name)
	}
	if len(want) > 0 {
		return Usage{}, fmt.Errorf("read memory: no line for %d of MemTotal, MemAvailable", len(want))
	}
	return u, nil
}
