//go:build linux

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootID names this boot of the host.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Find returns handles on all processes with marker as an argument of its own.
// The caller closes them.
func Find(marker string) ([]*Process, error) {
	if marker == "" {
		return nil, errors.New("find processes: empty marker")
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("find processes: %w", err)
	}
	var found []*Process
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if has, err := hasArgument(pid, marker); err != nil || !has {
			continue
		}
		if p, err := attach(pid, marker); err == nil {
			found = append(found, p)
		}
	}
	return found, nil
}

func hasArgument(pid int, arg string) (bool, error) {
	b, err := read(pid, "cmdline")
	if err != nil {
		return false, err
	}
	for a := range bytes.SplitSeq(b, []byte{0}) {
		if string(a) == arg {
			return true, nil
		}
	}
	return false, nil
}

type stat struct {
	state byte
	start uint64
	cpu   uint64 // ticks, of user and system
}

// tick is the unit of times in /proc, whatever the kernel's own is: USER_HZ.
const tick = 10 * time.Millisecond

// CPUTime is what a process has taken of the cores so far.
func CPUTime(pid int) (time.Duration, error) {
	st, err := readStat(pid)
	return time.Duration(st.cpu) * tick, err
}

func readStat(pid int) (stat, error) {
	b, err := read(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat reads fields 3, 14, 15 and 22 of /proc/PID/stat (proc_pid_stat(5)). Field
// 2, the name, may hold spaces and parentheses.
func parseStat(b []byte) (stat, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, errors.New("parse stat: no command name")
	}
	f := bytes.Fields(b[i+1:])
	const state, user, system, start = 0, 11, 12, 19
	if len(f) <= start || len(f[state]) != 1 {
		return stat{}, fmt.Errorf("parse stat: %d fields after the name", len(f))
	}
	var n [3]uint64
	for i, at := range []int{start, user, system} {
		var err error
		if n[i], err = strconv.ParseUint(string(f[at]), 10, 64); err != nil {
			return stat{}, fmt.Errorf("parse stat: field %d: %w", at+3, err)
		}
	}
	return stat{state: f[state][0], start: n[0], cpu: n[1] + n[2]}, nil
}

// read maps a process that has ended meanwhile to ErrGone.
func read(pid int, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("read %s of process %d: %w", name, pid, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of process %d: %w", name, pid, err)
	}
	return b, nil
}

// Memory returns the private memory of a process in bytes: anonymous pages,
// those of shared memory objects it maps, and what of it was swapped out.
func Memory(pid int) (int64, error) {
	b, err := read(pid, "status")
	if err != nil {
		return 0, err
	}
	var kib int64
	for line := range strings.Lines(string(b)) {
		key, val, _ := strings.Cut(line, ":")
		switch key {
		case "RssAnon", "RssShmem", "VmSwap":
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(val), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("parse %s of process %d: %w", key, pid, err)
			}
			kib += n
		}
	}
	return kib << 10, nil
}
