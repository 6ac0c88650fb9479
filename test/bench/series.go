package main

import (
	"context"
	"fmt"
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
	return fmt.Sprintf("p50 %8.2f ms   p95 %8.2f ms   n=%d", ms(s.at(0.5)), ms(s.at(0.95)), len(s))
}

// contender is one way of doing a thing.
type contender struct {
	name string
	// prepare runs before each measured do; nil: nothing.
	prepare func(ctx context.Context, n int) error
	do      func(ctx context.Context) error
}

// race runs the contenders in turn, A B A B, so that a drift of the machine
// meets all alike, and prints each one's median and its ratio to the first.
func (b *bench) race(ctx context.Context, title string, rounds int, all ...contender) error {
	times := make([]series, len(all))
	for n := range rounds + 1 {
		for i, c := range all {
			if c.prepare != nil {
				if err := c.prepare(ctx, n); err != nil {
					return fmt.Errorf("%s: prepare: %w", c.name, err)
				}
			}
			begin := time.Now()
			if err := c.do(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if n > 0 { // the first round warms up
				times[i] = append(times[i], time.Since(begin))
			}
		}
	}
	fmt.Fprintf(b.out, "%s\n", title)
	for i, c := range all {
		ratio := ""
		if i > 0 {
			ratio = fmt.Sprintf("   %.1f× the first", float64(times[i].at(0.5))/float64(times[0].at(0.5)))
		}
		fmt.Fprintf(b.out, "  %-22s  %v%s\n", c.name, times[i], ratio)
	}
	return nil
}
