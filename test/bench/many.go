package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// atOnce is how many desktops are made, asked or deleted at a time.
const atOnce = 4

// each runs fn for every desktop, a few at a time.
func each(ctx context.Context, all []*client.Desktop, fn func(context.Context, int, *client.Desktop) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, d := range all {
		group.Go(func() error { return fn(ctx, i, d) })
	}
	return group.Wait()
}

// grow makes desktops until there are n, and tells how long each took.
func (l *lives) grow(ctx context.Context, all []*client.Desktop, n int, policy api.Policy) ([]*client.Desktop, series, error) {
	var mu sync.Mutex
	var times series
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for range n - len(all) {
		group.Go(func() error {
			begin := time.Now()
			d, err := l.create(ctx, api.CreateDesktop{Policy: policy})
			mu.Lock()
			defer mu.Unlock()
			if d != nil {
				all, times = append(all, d), append(times, time.Since(begin))
			}
			return err
		})
	}
	err := group.Wait()
	return all, times, err
}

func remove(ctx context.Context, all []*client.Desktop) error {
	return each(context.WithoutCancel(ctx), all, func(ctx context.Context, _ int, d *client.Desktop) error { return d.Delete(ctx) })
}

// memory tells what idle clones take for themselves, as they age. Between, they
// are left alone.
func (l *lives) memory(ctx context.Context, ages ...time.Duration) (err error) {
	const n = 10
	all, _, err := l.grow(ctx, nil, n, api.Policy{})
	defer func() { err = errors.Join(err, remove(ctx, all)) }()
	if err != nil {
		return err
	}
	born := time.Now()
	fmt.Fprintf(l.out, "private memory of an idle clone, %d of them\n", n)
	for _, age := range ages {
		if err := sleep.For(ctx, time.Until(born.Add(age))); err != nil {
			return err
		}
		sizes, err := private(ctx, all)
		if err != nil {
			return err
		}
		fmt.Fprintf(l.out, "  after %-8s  median %4d MiB   most %4d MiB\n", age, sizes[len(sizes)/2]>>20, sizes[len(sizes)-1]>>20)
	}
	return nil
}

// private is what each desktop has for itself, ascending, in bytes.
func private(ctx context.Context, all []*client.Desktop) ([]int64, error) {
	sizes := make([]int64, len(all))
	err := each(ctx, all, func(ctx context.Context, i int, d *client.Desktop) error {
		info, err := d.Get(ctx)
		sizes[i] = info.MemoryPrivate
		return err
	})
	slices.Sort(sizes)
	return sizes, err
}

// density makes more and more desktops, and asks all of them each time.
func (l *lives) density(ctx context.Context, steps []int, sheet string) (err error) {
	var all []*client.Desktop
	defer func() { err = errors.Join(err, remove(ctx, all)) }()
	for _, n := range steps {
		policy := api.Policy{}
		const crowd = 150
		if n > crowd {
			policy = api.Policy{IdleS: 30, IdleAction: api.IdlePause}
			err := each(ctx, all, func(ctx context.Context, _ int, d *client.Desktop) error {
				_, err := d.SetPolicy(ctx, policy)
				return err
			})
			if err != nil {
				return err
			}
		}
		var times series
		if all, times, err = l.grow(ctx, all, n, policy); err != nil {
			return fmt.Errorf("after %d desktops: %w", len(all), err)
		}
		if err := sleep.For(ctx, time.Minute); err != nil {
			return err
		}
		if err := l.ask(ctx, all, times, sheet); err != nil {
			return err
		}
	}
	return nil
}

// ask has every desktop answer an exec and give a picture, draws the pictures on
// a sheet, and prints what it all takes.
func (l *lives) ask(ctx context.Context, all []*client.Desktop, creates series, sheet string) error {
	sizes, err := private(ctx, all) // before they are asked
	if err != nil {
		return err
	}
	answers, shots, pictures := make(series, len(all)), make(series, len(all)), make([]image.Image, len(all))
	err = each(ctx, all, func(ctx context.Context, i int, d *client.Desktop) error {
		begin := time.Now()
		if err := answering(ctx, d); err != nil {
			return fmt.Errorf("desktop %d: %w", i, err)
		}
		answers[i], begin = time.Since(begin), time.Now()
		shot, err := d.Screen().Screenshot(ctx, client.ScreenshotOptions{MaxWidth: thumb})
		if err != nil {
			return fmt.Errorf("desktop %d: %w", i, err)
		}
		shots[i] = time.Since(begin)
		pictures[i], err = png.Decode(bytes.NewReader(shot.Data))
		return err
	})
	if err != nil {
		return err
	}
	var sum int64
	for _, s := range sizes {
		sum += s
	}
	free, _ := meminfo("MemAvailable")
	fmt.Fprintf(l.out, "%d desktops alive, all answer: private memory median %d MiB, sum %.1f GiB; the host has %.1f GiB left\n",
		len(all), sizes[len(sizes)/2]>>20, float64(sum)/(1<<30), float64(free)/(1<<30))
	line(l.out, "create (of those new at this step)", creates, creates, false)
	line(l.out, "exec", answers, answers, false)
	line(l.out, "screenshot", shots, shots, false)
	file := filepath.Join(sheet, fmt.Sprintf("desktops-%d.png", len(all)))
	fmt.Fprintf(l.out, "  their screens: %s\n", file)
	return drawSheet(file, pictures)
}

// meminfo is one line of the kernel's account, in bytes.
func meminfo(name string) (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), name+": %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no %s", name)
}

// thumb is the width of one screen on a sheet, in pixels.
const thumb = 160

// drawSheet puts pictures side by side in rows.
func drawSheet(file string, pictures []image.Image) error {
	const most = 15
	columns := min(most, len(pictures))
	height := pictures[0].Bounds().Dy()
	rows := (len(pictures) + columns - 1) / columns
	sheet := image.NewRGBA(image.Rect(0, 0, columns*thumb, rows*height))
	for i, p := range pictures {
		at := image.Pt(i%columns*thumb, i/columns*height)
		draw.Draw(sheet, image.Rectangle{Min: at, Max: at.Add(p.Bounds().Size())}, p, p.Bounds().Min, draw.Src)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, sheet); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // a picture to look at
}
