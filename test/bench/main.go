// Command bench measures real guests side by side with what people use today, in
// one run, and prints medians and ratios. It asserts nothing: the figures of a
// shared machine are read, not tested. See docs/BENCHMARKS.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/test/bench/viewing"
)

// options are the flags.
type options struct {
	data, bin string
	parts     []string
	long      bool
	quick     bool
	desktops  []int
	sheets    string
}

// groups are the parts that one word names, in the order of their run.
var groups = map[string][]string{
	"desktop": {"boot", "idle", "screenshot", "exec", "copy"},
	"fork":    {"create", "fork", "rest", "travel", "memory", "density"},
	// One part, whose steps stand on each other.
	"workspace": {"keep"},
	"viewer":    viewing.Parts(),
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse()
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() (o options, err error) {
	var counts string
	flag.StringVar(&o.data, "data", "", "data `directory` that has the image debian-xfce")
	flag.StringVar(&o.bin, "vmhost", "bin/vmhost", "the `program` under test")
	flag.BoolVar(&o.long, "long", false, "look at memory after 10 and 40 minutes, too")
	flag.BoolVar(&o.quick, "quick", false, "two rounds of everything, to see that it runs")
	flag.StringVar(&counts, "desktops", "100,150,200", "how `many` are alive at once, at each step")
	flag.StringVar(&o.sheets, "sheets", os.TempDir(), "`directory` for pictures of all screens")
	flag.Parse()
	words := flag.Args()
	if len(words) == 0 {
		words = []string{"desktop"}
	}
	var known []string
	for _, g := range []string{"desktop", "fork", "workspace", "viewer"} {
		known = append(known, groups[g]...)
	}
	for _, w := range words {
		parts, ok := groups[w]
		if !ok && slices.Contains(known, w) {
			parts = []string{w}
		} else if !ok {
			return o, fmt.Errorf("%q is no part; there are desktop, fork, workspace and viewer, or of them %s", w, strings.Join(known, " "))
		}
		o.parts = append(o.parts, parts...)
	}
	for n := range strings.SplitSeq(counts, ",") {
		v, err := strconv.Atoi(n)
		if err != nil || v < 1 {
			return o, fmt.Errorf("-desktops %q: want numbers such as 100,150", counts)
		}
		o.desktops = append(o.desktops, v)
	}
	return o, nil
}

// rounds is how often something is measured.
func (o options) rounds(n int) int {
	if o.quick {
		return min(n, 2)
	}
	return n
}

// part is something that can be measured alone.
type part struct {
	name string
	run  func(context.Context) error
}

// wanted runs those of the parts that were asked for.
func (o options) wanted(ctx context.Context, parts ...part) error {
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (o options) any(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(o.parts, n) })
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.any("boot", "idle", "screenshot") {
		if err := runDaemon(ctx, o, out); err != nil {
			return err
		}
	}
	if o.any("exec", "copy") {
		if err := runLocal(ctx, o, out); err != nil {
			return err
		}
	}
	if o.any(groups["fork"]...) {
		if err := runLives(ctx, o, out); err != nil {
			return err
		}
	}
	if o.any("keep") {
		if err := runKeeping(ctx, o, out); err != nil {
			return err
		}
	}
	if o.any(viewing.Parts()...) {
		return viewing.Run(ctx, viewing.Config{Bin: o.bin, Data: o.data, Quick: o.quick, Out: out, Parts: o.parts,
			Line: func(name string, times, first []time.Duration, compare bool) { line(out, name, times, first, compare) }})
	}
	return nil
}

func runLocal(ctx context.Context, o options, out io.Writer) (err error) {
	l, err := startLocal(ctx, o.bin, o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	return o.wanted(ctx,
		part{"exec", func(ctx context.Context) error { return execs(ctx, l, out) }},
		part{"copy", func(ctx context.Context) error { return copies(ctx, l, out) }},
	)
}

func runLives(ctx context.Context, o options, out io.Writer) error {
	l, err := startLives(ctx, o, out)
	if err != nil {
		return err
	}
	defer l.close()
	ages := []time.Duration{time.Minute}
	if o.long {
		ages = append(ages, 10*time.Minute, 40*time.Minute)
	}
	return o.wanted(ctx,
		part{"create", l.creation}, part{"fork", l.forks}, part{"rest", l.rests}, part{"travel", l.travels},
		part{"memory", func(ctx context.Context) error { return l.memory(ctx, ages...) }},
		part{"density", func(ctx context.Context) error { return l.density(ctx, o.desktops, o.sheets) }},
	)
}
