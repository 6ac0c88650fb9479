// Command bench measures a real guest side by side with what people use today,
// in one run, and prints medians and ratios. It asserts nothing: the figures of
// a shared machine are read, not tested. See docs/BENCHMARKS.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	data := flag.String("data", "", "data directory that has the image debian-xfce")
	bin := flag.String("vmhost", "bin/vmhost", "the program under test")
	flag.Parse()
	if err := run(ctx, *bin, *data, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run: a daemon, a desktop, and where the figures go.
type bench struct {
	daemon *harness.Daemon
	desk   *client.Desktop
	out    io.Writer
}

func run(ctx context.Context, bin, data string, out io.Writer) error {
	d, err := harness.New(ctx, bin, data)
	if err != nil {
		return err
	}
	defer d.Remove()
	if err := d.Start(ctx); err != nil {
		return err
	}
	defer d.Stop()
	begin := time.Now()
	desk, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "bench"},
		client.Until(api.StageDrawn), client.Within(10*time.Minute))
	if err != nil {
		d.DumpLog()
		return fmt.Errorf("create a desktop: %w", err)
	}
	defer desk.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	b := &bench{daemon: d, desk: desk, out: out}
	info, err := d.Client.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "accelerator %s (%s)\n", info.Accelerator, info.AcceleratorReason)
	if err := b.boot(ctx, time.Since(begin)); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"idle", b.idle}, {"screenshot", b.screenshots}, {"exec", b.execs}, {"copy", b.copies}} {
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
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
