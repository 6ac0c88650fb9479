package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// killTree kills all that an exec has started, where it has no cgroup, by
// looking for its processes until none is found. leader is nil when it has been
// reaped.
func killTree(leader *os.Process, tag string) {
	const rounds = 20 // a process may fork while we look
	for range rounds {
		found := 0
		if leader != nil && unix.Kill(-leader.Pid, unix.SIGKILL) == nil {
			found++
		}
		for _, pid := range family(leader, tag) {
			if unix.Kill(pid, unix.SIGKILL) == nil {
				found++
			}
		}
		if found == 0 {
			return
		}
		leader = nil // its group has been told; its id may be reused from now on
	}
}

// family finds living processes that carry the tag, and descendants and
// session members of the leader.
func family(leader *os.Process, tag string) []int {
	mark := []byte(tagVariable + "=" + tag)
	parents := map[int]int{}
	member := map[int]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		ppid, session, alive := stat(d)
		if !alive {
			continue
		}
		parents[pid] = ppid
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		tagged := err == nil && bytes.Contains(append([]byte{0}, env...), append([]byte{0}, mark...))
		if tagged || leader != nil && (session == leader.Pid || pid == leader.Pid) {
			member[pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for pid, ppid := range parents {
			if member[ppid] && !member[pid] {
				member[pid], grew = true, true
			}
		}
	}
	pids := make([]int, 0, len(member))
	for pid := range member {
		pids = append(pids, pid)
	}
	return pids
}

// stat reads parent and session of a process that is not a zombie.
func stat(dir string) (ppid, session int, alive bool) {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return 0, 0, false
	}
	// The name in parentheses may hold anything: read behind its end.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, 0, false
	}
	var state string
	var group int
	if _, err := fmt.Sscan(string(b[end+1:]), &state, &ppid, &group, &session); err != nil {
		return 0, 0, false
	}
	return ppid, session, state != "Z" && state != "X"
}
