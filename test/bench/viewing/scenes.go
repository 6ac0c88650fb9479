package viewing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/api"
)

// late prints how long a page takes to its first picture of a screen that is still.
func (v *views) late(ctx context.Context) (err error) {
	end, err := v.show(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var times [2][]time.Duration
	for range v.rounds(7) {
		for i, s := range v.sides() {
			url, err := s.url(ctx)
			if err != nil {
				return err
			}
			took, err := v.meter.Page("late", url)
			if err := errors.Join(err, v.meter.Leave("late")); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			times[i] = append(times[i], took)
		}
	}
	fmt.Fprintln(v.cfg.Out, "late join on a still screen: begin of the page to the first picture")
	v.lines(times)
	return nil
}

func (v *views) rounds(n int) int {
	if v.cfg.Quick {
		return min(n, 2)
	}
	return n
}

func (v *views) lines(times [2][]time.Duration) {
	for i, s := range v.sides() {
		v.cfg.Line(s.name, times[i], times[0], i > 0)
	}
}

// each opens a page of each side, one after the other, for fn.
func (v *views) each(ctx context.Context, fn func(i int, s side) error) error {
	for i, s := range v.sides() {
		url, err := s.url(ctx)
		if err != nil {
			return err
		}
		_, err = v.meter.Page(s.name, url)
		if err == nil {
			// The first pictures are keys, and of the page's begin.
			if _, err = v.meter.Look(s.name, 2*time.Second); err == nil {
				err = fn(i, s)
			}
		}
		if err := errors.Join(err, v.meter.Leave(s.name)); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// motion prints how long it takes from a press of the mouse on the page, through the
// guest's program, to the changed picture on the page.
func (v *views) motion(ctx context.Context) (err error) {
	end, err := v.show(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var times [2][]time.Duration
	for range v.rounds(3) {
		err := v.each(ctx, func(i int, s side) error {
			if s.name == "viewer" {
				if err := v.meter.Take(s.name); err != nil {
					return err
				}
			}
			took, err := v.meter.Clicks(s.name, v.rounds(10))
			times[i] = append(times[i], took...)
			return err
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(v.cfg.Out, "motion to photon: a press on the page to the patch that the guest's program changes on it")
	v.lines(times)
	return nil
}

// frames prints how many of the frames that the guest's program drew are seen.
func (v *views) frames(ctx context.Context) (err error) {
	fmt.Fprintln(v.cfg.Out, "frames that the guest drew and the page showed")
	for _, fps := range []int{10, 20, 30} {
		end, err := v.show(ctx, fps)
		if err != nil {
			return err
		}
		err = v.each(ctx, func(_ int, s side) error {
			got, err := v.meter.Look(s.name, v.span)
			if err != nil {
				return err
			}
			seen, drawn := got.Share()
			fmt.Fprintf(v.cfg.Out, "  %-8s %2d a second wanted, drawn %.1f, shown %.1f   %3.0f %%\n", s.name, fps,
				float64(drawn)/v.span.Seconds(), float64(seen)/v.span.Seconds(), 100*float64(seen)/float64(max(drawn, 1)))
			return nil
		})
		if err := errors.Join(err, end()); err != nil {
			return err
		}
	}
	return nil
}

// scene is something that a desktop shows for a while.
type scene struct {
	name    string
	video   bool
	shell   string // in a terminal; empty: none
	viewers int
}

var scenes = []scene{
	{name: "still", viewers: 1},
	{name: "typing", shell: `while :; do printf 'x'; sleep 0.1; done`, viewers: 1},
	{name: "scrolling", shell: `n=0; while :; do n=$((n+1)); echo "$n: what a program has to say in a line of its log, $((n * 7919 % 1000))"; sleep 0.05; done`, viewers: 1},
	{name: "video", video: true, viewers: 1},
	{name: "scrolling", shell: `n=0; while :; do n=$((n+1)); echo "$n: what a program has to say in a line of its log, $((n * 7919 % 1000))"; sleep 0.05; done`, viewers: 5},
}

// costs prints bytes and processor time of scenes.
func (v *views) costs(ctx context.Context) error {
	fmt.Fprintln(v.cfg.Out, "what it costs                      KiB/s a viewer     processor (of one core)")
	for _, sc := range scenes {
		if err := v.cost(ctx, sc); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return nil
}

func (v *views) cost(ctx context.Context, sc scene) (err error) { //nolint:cyclop // one scene, from its begin to its end
	fps, more := 0, []string(nil)
	if sc.video {
		fps, more = 25, []string{"video"}
	}
	end, err := v.show(ctx, fps, more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if sc.shell != "" {
		argv := []string{"xterm", "-T", "scene", "-geometry", "100x30+100+120", "-e", "sh", "-c", sc.shell}
		if _, err := v.desk.Launch(ctx, api.Launch{Argv: argv}); err != nil {
			return err
		}
		defer func() {
			_, stopped := v.desk.Exec(context.WithoutCancel(ctx), "pkill", "-x", "xterm")
			err = errors.Join(err, stopped)
		}()
		if err := sleep.For(ctx, 3*time.Second); err != nil { // it starts
			return err
		}
	}
	var first float64
	return v.each(ctx, func(i int, s side) error {
		for n := 1; n < sc.viewers; n++ {
			name := fmt.Sprint("more", n)
			url, err := s.url(ctx)
			if err != nil {
				return err
			}
			if _, err := v.meter.Page(name, url); err != nil {
				return err
			}
			defer v.meter.Leave(name) //nolint:errcheck // the browser ends anyway
		}
		if err := sleep.For(ctx, 2*time.Second); err != nil { // the quality settles
			return err
		}
		before, err := s.cpu()
		if err != nil {
			return err
		}
		begin := time.Now()
		got, err := v.meter.Look(s.name, v.span)
		if err != nil {
			return err
		}
		after, err := s.cpu()
		if err != nil {
			return err
		}
		took := time.Since(begin).Seconds()
		rate, ratio := float64(got.Bytes)/1024/took, ""
		if i == 0 {
			first = rate
		} else if first > 0 {
			ratio = fmt.Sprintf("   %.1f× the first's bytes", rate/first)
		}
		what := strings.TrimSpace(fmt.Sprintf("%s, %d viewers", sc.name, sc.viewers))
		if sc.viewers == 1 {
			what = sc.name
		}
		fmt.Fprintf(v.cfg.Out, "  %-22s %-8s %12.1f %16.1f %%%s\n", what, s.name, rate, 100*(after-before).Seconds()/took, ratio)
		return nil
	})
}
