// Package log reads and bounds the logs of a machine.
package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keep is how much of its end a log keeps when it has grown too long, in bytes.
const keep = 256 << 10

// Bound keeps logs from growing above limit bytes until ctx ends: a guest may
// write to its serial console as much as it likes.
func Bound(ctx context.Context, every time.Duration, limit int64, report *slog.Logger, paths ...string) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, path := range paths {
			if err := Trim(path, limit); err != nil {
				report.Warn("log not cut", "error", err)
			}
		}
	}
}

// Trim cuts a log above limit bytes down to its end. Its writer appends, and
// goes on behind that; what it writes meanwhile may come before it.
func Trim(path string, limit int64) (err error) {
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
	end := make([]byte, min(keep, limit/2))
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

const tailBytes = 2 << 10

// Tail returns the end of a log, or nothing.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, end-tailBytes), io.SeekStart)
		if err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	return string(b)
}

// harmless are lines of QEMU that say nothing against a machine that was loaded.
var harmless = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Expected vmdescription section, but got 0$` +
		`|warning: TCG doesn't support requested feature` +
		`|warning: host doesn't support requested feature` +
		`|warning: This feature depends on other features that were not requested`)
})

// Foreign returns the first line of QEMU's log that is not known to be harmless,
// or nothing.
func Foreign(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read QEMU's log: %w", err)
	}
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && (!harmless().Match(line) || bytes.Contains(line, []byte("inconsistent"))) {
			return string(line), nil
		}
	}
	return "", nil
}
