package desktops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// maxCount is how many desktops one command makes; it is the API's limit too.
const maxCount = 200

func checkCount(n int) error {
	if n < 1 || n > maxCount {
		return command.Invalid("-n %d is not within 1 to %d", n, maxCount)
	}
	return nil
}

// numbered is the name of the i'th (from 0) of n desktops; empty: made up.
func numbered(name string, i, n int) string {
	if name == "" || n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// outcome is what became of one desktop.
type outcome struct {
	name string // empty: it was never made
	info api.Desktop
	err  error
}

// bringUp makes n desktops side by side, waits for each, and prints their ids
// in order, each as soon as it and those before it are up.
func (a *group) bringUp(ctx context.Context, w waiting, n int, create func(i int) (*client.Desktop, error)) error {
	// What one of several waits for, the others wait for too.
	waiting := func(what string) { a.Say("waiting: %s", what) }
	if n == 1 {
		got := a.bringUpOne(ctx, w, bringing{waiting: waiting}, func() (*client.Desktop, error) { return create(0) })
		if got.err != nil {
			return got.err
		}
		return a.Print(got.info, func(out io.Writer) { fmt.Fprintln(out, got.info.ID) })
	}
	results := make([]chan outcome, n)
	for i := range results {
		results[i] = make(chan outcome, 1)
		b := bringing{several: true}
		if i == 0 {
			b.waiting = waiting
		}
		go func() { // ends with ctx or with the server's answers
			results[i] <- a.bringUpOne(ctx, w, b, func() (*client.Desktop, error) { return create(i) })
		}()
	}
	up, status := api.DesktopList{Desktops: []api.Desktop{}}, 0
	for i := range results {
		got := <-results[i]
		if got.err != nil {
			code := a.Report(cmp.Or(got.name, fmt.Sprintf("%d of %d", i+1, n)), got.err)
			status = cmp.Or(status, code)
			continue
		}
		up.Desktops = append(up.Desktops, got.info)
		if !a.JSON {
			fmt.Fprintln(a.Out, got.info.ID)
		}
	}
	if err := a.Print(up, func(io.Writer) {}); err != nil {
		return err
	}
	if status != 0 {
		return command.ExitError(status)
	}
	return nil
}

// bringing is how a desktop is told about while it comes up.
type bringing struct {
	several bool              // it is one of them, and is named
	waiting func(what string) // hears what its start waits for; nil: another one's tells
}

// gone says whether somebody has removed a desktop, or is at it.
func gone(ctx context.Context, d *client.Desktop) bool {
	info, err := d.Get(ctx)
	return errors.Is(err, &api.Error{Code: api.CodeNotFound}) || err == nil && info.State == api.StateDeleting
}

// bringUpOne makes a desktop and waits for it.
func (a *group) bringUpOne(ctx context.Context, w waiting, b bringing, create func() (*client.Desktop, error)) outcome {
	d, err := create()
	if err != nil {
		return outcome{err: err}
	}
	stage := func(s api.StageTime) {
		switch {
		case a.JSON:
		case !b.several:
			a.Say("%-10s %6.1f s", s.Stage, float64(s.TookMS)/1000)
		default:
			a.Say("%s: %-10s %6.1f s", d.Info.Name, s.Stage, float64(s.TookMS)/1000)
		}
	}
	info, err := w.until(ctx, d, telling{stage: stage, waiting: b.waiting})
	if b.waiting != nil {
		a.NotParked(info.NotParked, cmp.Or(info.Image, info.ImageDigest))
	}
	if err != nil && !gone(ctx, d) {
		a.Say("desktop %s stays unless somebody removes it: see vmhost logs %s; remove it with vmhost rm %s", info.ID, d.Ref(), d.Ref())
	}
	return outcome{name: d.Info.Name, info: info, err: err}
}
