package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// idle prints what the daemon costs while its desktop does nothing.
func (b *bench) idle(ctx context.Context) error {
	const span = 20 * time.Second
	before, err := cpu(b.daemon.PID())
	if err != nil {
		return err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := cpu(b.daemon.PID())
	if err != nil {
		return err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.daemon.PID()))
	if err != nil {
		return err
	}
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	rss, _, _ = strings.Cut(rss, "\n")
	fmt.Fprintf(b.out, "vmhost with one idle desktop  %.2f %% of one core, resident %s\n",
		100*float64(after-before)/float64(span), strings.TrimSpace(rss))
	return nil
}

// cpu is the processor time that a process has used.
func cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// screenshots compares ours, changed and unchanged, with what agents do in a
// guest: scrot to a file, and the file as base64 through exec.
func (b *bench) screenshots(ctx context.Context) error {
	// A terminal that prints makes each picture a new one.
	if _, err := b.desk.Launch(ctx, api.Launch{Argv: []string{"xterm", "-T", "bench", "-e", "sh", "-c", "tail -f /tmp/bench-lines"}}); err != nil {
		return err
	}
	change := func(ctx context.Context, n int) error {
		_, err := b.desk.Exec(ctx, "sh", "-c", fmt.Sprintf("echo line %d of the bench >> /tmp/bench-lines", n))
		if err != nil {
			return err
		}
		_, err = b.desk.Screen().Wait(ctx, client.ScreenWait{For: "still", Still: 200 * time.Millisecond, Timeout: 10 * time.Second})
		return err
	}
	var etag string
	return b.race(ctx, "screenshot, PNG of the whole screen", 30,
		contender{"changed", change, func(ctx context.Context) error {
			s, err := b.desk.Screenshot(ctx)
			if err == nil {
				etag = s.ETag
			}
			return err
		}},
		contender{"unchanged", nil, func(ctx context.Context) error {
			_, err := b.desk.Screen().Screenshot(ctx, client.ScreenshotOptions{ETag: etag})
			return err
		}},
		contender{"scrot + base64 by exec", nil, func(ctx context.Context) error {
			res, err := b.desk.Execs().Run(ctx, api.Exec{Shell: "scrot -o /tmp/bench.png && base64 -w0 /tmp/bench.png"})
			if err != nil {
				return err
			}
			png, err := base64.StdEncoding.DecodeString(string(res.Stdout))
			if err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
				return fmt.Errorf("scrot: %s %w", res.Stderr, err)
			}
			return nil
		}})
}

// execs compares a program that does nothing with a warm ssh.
func (b *bench) execs(ctx context.Context) error {
	ssh, err := b.startSSH(ctx)
	if err != nil {
		return err
	}
	defer ssh.close()
	return b.race(ctx, "exec true, round trip", 50,
		contender{"exec", nil, func(ctx context.Context) error {
			_, err := b.desk.Exec(ctx, "true")
			return err
		}},
		contender{"ssh, ControlMaster", nil, func(ctx context.Context) error { return ssh.run(ctx, "ssh", "guest", "true") }})
}

// copies compares a file of 64 MiB both ways with scp.
func (b *bench) copies(ctx context.Context) error {
	const size = 64 << 20
	ssh, err := b.startSSH(ctx)
	if err != nil {
		return err
	}
	defer ssh.close()
	file := filepath.Join(ssh.dir, "payload")
	payload := bytes.Repeat([]byte("sixteen bytes.\r\n"), size/16)
	if err := os.WriteFile(file, payload, 0o600); err != nil {
		return err
	}
	if err := b.race(ctx, "copy of 64 MiB into the guest", 5,
		contender{"files", nil, func(ctx context.Context) error {
			_, err := b.desk.Files().Write(ctx, "/tmp/bench-a", bytes.NewReader(payload), client.WriteOptions{})
			return err
		}},
		contender{"scp", nil, func(ctx context.Context) error { return ssh.run(ctx, "scp", file, "guest:/tmp/bench-b") }}); err != nil {
		return err
	}
	return b.race(ctx, "copy of 64 MiB out of the guest", 5,
		contender{"files", nil, func(ctx context.Context) error {
			r, err := b.desk.Files().Open(ctx, "/tmp/bench-a")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		}},
		contender{"scp", nil, func(ctx context.Context) error { return ssh.run(ctx, "scp", "guest:/tmp/bench-b", file+".back") }})
}
