package boot_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

func run(ctx context.Context, scale int, steps ...boot.Step) ([]api.Stage, error) {
	var reached []api.Stage
	err := boot.Run(ctx, steps, func() int { return scale }, func(s api.Stage) { reached = append(reached, s) })
	return reached, err
}

func TestDeadlineScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ok := boot.Step{Stage: api.StageLink, Limit: time.Second, Run: func(context.Context, func(string)) error { return nil }}
		stuck := boot.Step{Stage: api.StageSession, Limit: 10 * time.Second, Run: func(ctx context.Context, note func(string)) error {
			return boot.Poll(ctx, time.Second, note, func(context.Context) (string, error) { return "the helper is not there", nil })
		}}
		reached, err := run(t.Context(), 8, ok, stuck, ok)
		e := fault.From(err)
		if len(reached) != 1 || e.Stage != "session" || e.Code != api.CodeGuestFailed {
			t.Errorf("reached %v, %+v", reached, e)
		}
		if e.Detail != "not reached within 1m20s: the helper is not there" {
			t.Errorf("detail %q", e.Detail)
		}
		if took := time.Since(start); took != 80*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestErrors(t *testing.T) {
	fails := func(err error) boot.Step {
		return boot.Step{Stage: api.StageDrawn, Limit: time.Second, Run: func(context.Context, func(string)) error { return err }}
	}
	_, err := run(t.Context(), 1, fails(&vm.ExitError{Stage: "start", Status: "exit status 1", Stderr: "words"}))
	if e := fault.From(err); e.Stage != "start" || e.Log != "words" {
		t.Errorf("%+v", e)
	}
	_, err = run(t.Context(), 1, fails(errors.New("odd")))
	if e := fault.From(err); e.Stage != "drawn" || !strings.Contains(e.Detail, "odd") {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(vm.ErrGone)
	_, err = run(ctx, 1, fails(context.Canceled))
	if e := fault.From(err); e.Code != api.CodePrecondition || e.Stage != "drawn" {
		t.Errorf("the cause is lost: %+v", e)
	}
}
