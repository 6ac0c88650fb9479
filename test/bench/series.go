package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// series is a list of durations of the same thing.
type series []time.Duration

func (s series) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(q*float64(len(sorted)-1))]
}

func (s series) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("p50 %9.2f ms   p95 %9.2f ms   n=%d", ms(s.at(0.5)), ms(s.at(0.95)), len(s))
}

// contender is one way of doing a thing.
type contender struct {
	name string
	// before runs before each measured do, after after it; nil: nothing.
	before func(ctx context.Context, n int) error
	do     func(ctx context.Context) error
	after  func(ctx context.Context) error
}

// errOther says that something else was measured than was meant: it does not
// count and is done again.
var errOther = errors.New("this was another thing")

// race runs the contenders in turn, A B A B, so that a drift of the machine
// meets all alike, and prints each one's median and its ratio to the first.
func race(ctx context.Context, out io.Writer, title string, rounds int, all ...contender) error {
	times := make([]series, len(all))
	for n := range rounds + 1 {
		for i, c := range all {
			took, err := c.run(ctx, n)
			const tries = 10
			for again := 1; errors.Is(err, errOther) && again < tries; again++ {
				took, err = c.run(ctx, n)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if n > 0 { // the first round warms up
				times[i] = append(times[i], took)
			}
		}
	}
	fmt.Fprintf(out, "%s\n", title)
	for i, c := range all {
		line(out, c.name, times[i], times[0], i > 0)
	}
	return nil
}

func (c contender) run(ctx context.Context, n int) (took time.Duration, err error) {
	if c.before != nil {
		if err := c.before(ctx, n); err != nil {
			return 0, fmt.Errorf("before: %w", err)
		}
	}
	begin := time.Now()
	if err := c.do(ctx); err != nil {
		return 0, err
	}
	took = time.Since(begin)
	if c.after != nil {
		err = c.after(ctx)
	}
	return took, err
}

// line prints one series and, where asked for, its ratio to the first.
func line(out io.Writer, name string, s, first series, compare bool) {
	ratio := ""
	if compare && first.at(0.5) > 0 {
		ratio = fmt.Sprintf("   %.1f× the first", float64(s.at(0.5))/float64(first.at(0.5)))
	}
	fmt.Fprintf(out, "  %-34s  %v%s\n", name, s, ratio)
}
