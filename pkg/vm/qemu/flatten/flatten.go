// Package flatten shortens the disk chains of a running machine: what lies in
// overlays between its top and its image is copied up into the top, which is the
// machine's own. Nothing is ever written into what is shared (no block-commit).
package flatten

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// prefix of our jobs' names.
const prefix = "flatten-"

// speed bounds the copying, in bytes a second, so that the guest can go on.
const speed = 128 << 20

const every = 50 * time.Millisecond

// Run copies until the top of each disk stands on base[i] alone; an empty base is
// nothing at all. When ctx ends the jobs are cancelled, which keeps what was
// copied and changes nothing for the guest.
func Run(ctx context.Context, mon *qmp.Client, disks []live.Disk, base []string) error {
	for i, d := range disks {
		args := map[string]any{"job-id": prefix + d.ID, "device": d.Node, "speed": int64(speed), "auto-dismiss": false}
		if base[i] != "" {
			args["base"] = base[i]
		}
		if err := mon.Execute(ctx, "block-stream", args, nil); err != nil {
			return errors.Join(fmt.Errorf("shorten the chain of %s: %w", d.ID, err), Stop(ctx, mon))
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		left, err := step(ctx, mon)
		if left == 0 || err != nil {
			return errors.Join(err, Stop(ctx, mon))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), Stop(ctx, mon))
		}
	}
}

type job struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

func jobs(ctx context.Context, mon *qmp.Client) ([]job, error) {
	var all, ours []job
	if err := mon.Execute(ctx, "query-jobs", nil, &all); err != nil {
		return nil, err
	}
	for _, j := range all {
		if strings.HasPrefix(j.ID, prefix) {
			ours = append(ours, j)
		}
	}
	return ours, nil
}

// step counts the jobs that are not done, and reports those that failed.
func step(ctx context.Context, mon *qmp.Client) (left int, err error) {
	all, err := jobs(ctx, mon)
	if err != nil {
		return 0, err
	}
	for _, j := range all {
		switch {
		case j.Status != "concluded":
			left++
		case j.Error != "":
			err = errors.Join(err, fmt.Errorf("%s: %s", j.ID, j.Error))
		}
	}
	return left, err
}

const stopTimeout = 10 * time.Second

// Stop cancels jobs of ours, an earlier daemon's too, and waits until they are
// gone. The end of ctx does not stop it.
func Stop(ctx context.Context, mon *qmp.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	tick := time.NewTicker(every / 10)
	defer tick.Stop()
	for {
		all, err := jobs(ctx, mon)
		if err != nil {
			return fmt.Errorf("stop shortening chains: %w", err)
		}
		if len(all) == 0 {
			return nil
		}
		for _, j := range all {
			// Refusals are a job that moves on by itself meanwhile.
			if j.Status == "concluded" {
				_ = mon.Execute(ctx, "job-dismiss", map[string]any{"id": j.ID}, nil)
			} else {
				_ = mon.Execute(ctx, "job-cancel", map[string]any{"id": j.ID}, nil)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("stop shortening chains: %w", ctx.Err())
		}
	}
}
