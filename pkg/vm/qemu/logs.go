package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// logKeep is how much of its end a log keeps when it has grown too long, in bytes.
const logKeep = 256 << 10

// trimLogs keeps the machine's logs from filling the disk until ctx ends: a guest
// may write to its serial console as much as it likes.
func (m *Machine) trimLogs(ctx context.Context) {
	tick := time.NewTicker(m.p.cfg.LogEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, name := range []string{SerialLogFile, QEMULogFile} {
			if err := trimLog(m.lay.file(name), m.p.cfg.LogLimit); err != nil {
				m.log.Warn("log not cut", "error", err)
			}
		}
	}
}

// trimLog cuts a log above limit bytes down to its end. Its writer appends, and
// goes on behind that; what it writes meanwhile may come before it.
func trimLog(path string, limit int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil || st.Size() <= limit {
		return err
	}
	end := make([]byte, min(logKeep, limit/2))
	if _, err := f.ReadAt(end, st.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cut log %s: %w", path, err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("cut log %s: %w", path, err)
	}
	if _, err := f.Write(end); err != nil {
		return fmt.Errorf("cut log %s: %w", path, err)
	}
	return nil
}
