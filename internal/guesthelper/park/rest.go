//go:build linux

package park

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// rests waits until the processes of a session (of which pid is the leader)
// have hardly used any CPU for a time, and none of them waits for one: on a busy
// host a program may want much and get little.
func (p *Parker) rests(ctx context.Context, pid int, quiet time.Duration) error {
	poll := min(quiet, 500*time.Millisecond)
	var seen rest
	for {
		ticks, running := usage(pid)
		if seen.look(time.Now(), ticks, quiet) && !running {
			return nil
		}
		if err := p.d.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// rest holds what was seen within the quiet time.
type rest struct{ looks []look }

type look struct {
	at    time.Time
	ticks int64
}

// look adds what is seen at a time, and reports whether a whole quiet time has
// been seen and little was used in it. Fewer ticks than before say that
// processes have ended.
func (r *rest) look(at time.Time, ticks int64, quiet time.Duration) bool {
	const (
		tick = 10 * time.Millisecond // USER_HZ
		most = 10                    // percent of one core
	)
	r.looks = append(r.looks, look{at, ticks})
	for len(r.looks) > 1 && at.Sub(r.looks[1].at) >= quiet {
		r.looks = r.looks[1:]
	}
	first := r.looks[0]
	passed := at.Sub(first.at)
	return passed >= quiet && time.Duration(ticks-first.ticks)*tick <= passed*most/100
}

// usage sums the CPU time of a session's living processes, in ticks, and reports
// whether one of them runs or wants to.
func usage(session int) (ticks int64, running bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		used, state, ok := parseStat(b, session)
		if ok {
			ticks += used
			running = running || state == "R" || state == "D"
		}
	}
	return ticks, running
}

// parseStat reads what proc(5) says of /proc/PID/stat; ok is false for processes
// of other sessions.
func parseStat(b []byte, session int) (ticks int64, state string, ok bool) {
	// The name in parentheses may hold anything: read behind its end.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, "", false
	}
	var parent, group, sid, tty, tpgid int
	var flags, minflt, cminflt, majflt, cmajflt uint64
	var user, system int64
	_, err := fmt.Sscan(string(b[end+1:]), &state, &parent, &group, &sid, &tty, &tpgid,
		&flags, &minflt, &cminflt, &majflt, &cmajflt, &user, &system)
	return user + system, state, err == nil && sid == session
}
