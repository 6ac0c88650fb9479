package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// bench is one daemon with one desktop.
type bench struct {
	daemon *harness.Daemon
	desk   *client.Desktop
	out    io.Writer
}

// runDaemon measures what needs the daemon in a process of its own.
func runDaemon(ctx context.Context, o options, out io.Writer) error {
	d, err := harness.New(ctx, o.bin, o.data)
	if err != nil {
		return err
	}
	defer d.Remove()
	if err := d.Start(ctx); err != nil {
		return err
	}
	defer d.Stop()
	begin := time.Now()
	desk, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "bench", Cold: true},
		client.Until(api.StageDrawn), client.Within(harness.BootTimeout))
	if err != nil {
		d.DumpLog()
		return fmt.Errorf("create a desktop: %w", err)
	}
	total := time.Since(begin)
	defer desk.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	b := &bench{daemon: d, desk: desk, out: out}
	info, err := d.Client.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "accelerator %s (%s)\n", info.Accelerator, info.AcceleratorReason)
	return o.wanted(ctx,
		part{"boot", func(ctx context.Context) error { return b.boot(ctx, total) }},
		part{"idle", b.idle}, part{"screenshot", b.screenshots},
	)
}

// boot prints where the time to a drawn desktop went.
func (b *bench) boot(ctx context.Context, total time.Duration) error {
	info, err := b.desk.Get(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "boot to drawn             %s\n", total.Round(100*time.Millisecond))
	for _, s := range info.Stages {
		fmt.Fprintf(b.out, "  %-22s  %.1f s\n", s.Stage, float64(s.TookMS)/1000)
	}
	return nil
}

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
	return race(ctx, b.out, "screenshot, PNG of the whole screen", 30,
		contender{name: "changed", before: change, do: func(ctx context.Context) error {
			s, err := b.desk.Screenshot(ctx)
			if err == nil {
				etag = s.ETag
			}
			return err
		}},
		contender{name: "unchanged", do: func(ctx context.Context) error {
			_, err := b.desk.Screen().Screenshot(ctx, client.ScreenshotOptions{ETag: etag})
			return err
		}},
		contender{name: "scrot + base64 by exec", do: func(ctx context.Context) error {
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
