package desktops

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// waiting are the flags of what makes desktops.
type waiting struct {
	wait, noWait bool
	timeout      time.Duration
}

func (w *waiting) flags(fl *pflag.FlagSet) {
	fl.BoolVar(&w.wait, "wait", true, "wait until the desktop is drawn")
	fl.BoolVar(&w.noWait, "no-wait", false, "return when the machine begins")
	fl.DurationVar(&w.timeout, "timeout", 10*time.Minute, "how long to wait")
}

// Times at which a desktop is asked what its start waits for: soon, and then
// again and again.
const (
	firstLook = 200 * time.Millisecond
	lookAgain = time.Second
)

// telling is who hears what happens while a desktop starts; nil members do not.
type telling struct {
	stage   func(api.StageTime)
	waiting func(what string)
}

// until waits as the flags say.
func (w *waiting) until(ctx context.Context, d *client.Desktop, say telling) (api.Desktop, error) {
	info := d.Info
	if !w.wait || w.noWait {
		return info, nil
	}
	if say.waiting != nil {
		lctx, cancel := context.WithCancel(ctx)
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			look(lctx, d, say.waiting)
		}()
		defer func() {
			cancel()
			<-looked
		}()
	}
	deadline := time.Now().Add(w.timeout)
	for _, stage := range command.Stages() {
		got, err := d.Wait(ctx, stage, max(time.Until(deadline), time.Millisecond).Round(time.Millisecond))
		if err != nil {
			return info, err
		}
		info = got
		for _, s := range info.Stages {
			if s.Stage == stage {
				say.stage(s)
			}
		}
	}
	return info, nil
}

// look tells what the start of a desktop waits for, each time that it is
// something else, until ctx ends.
func look(ctx context.Context, d *client.Desktop, say func(what string)) {
	last, next := "", time.NewTimer(firstLook)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(lookAgain)
		info, err := d.Get(ctx)
		if err != nil {
			continue // who waits for a stage hears of it
		}
		if info.Waiting != "" && info.Waiting != last {
			say(info.Waiting)
		}
		last = info.Waiting
	}
}

func (a *group) waitCmd() *cobra.Command {
	var stage string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait D",
		Short: "Wait until a desktop has reached a stage",
		Long: `Waits until a desktop has reached a stage of becoming ready, drawn by default.
The stages are, in this order: admission, machine, link, handshake, session,
drawn. A stage that fails ends the wait with its error.`,
		Example: `  vmhost wait first
  vmhost wait first --stage link --timeout 30s`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			info, err := d.Wait(cmd.Context(), api.Stage(stage), timeout)
			if err != nil {
				return err
			}
			return a.Print(info, func(w io.Writer) { fmt.Fprintln(w, info.ID) })
		},
	}
	cmd.Flags().StringVar(&stage, "stage", string(api.StageDrawn), "`stage` to wait for")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	var names []string
	for _, s := range command.Stages() {
		names = append(names, string(s))
	}
	command.OneOf(cmd, "stage", names...)
	return cmd
}
