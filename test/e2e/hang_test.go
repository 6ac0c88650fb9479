//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestGuestdHangs stops guestd while a program of it runs: calls end with an
// error that says so, the other desktop does not notice, and when guestd goes on
// nothing of the program's output is lost.
func TestGuestdHangs(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{Name: "hangs"}, api.StageDrawn)
	other := breakable(t, api.CreateDesktop{Name: "unmoved"}, api.StageDrawn)
	counts, err := d.Execs().Start(t.Context(), api.Exec{Shell: "for i in $(seq 1 100); do echo $i; sleep 0.3; done"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Execs().Start(t.Context(), api.Exec{User: "root", Shell: "pid=$(pgrep -ox guestd); kill -STOP $pid; sleep 60; kill -CONT $pid"})
	if err != nil && !hung(err) {
		t.Fatal(err)
	}
	d.until(t, 2*time.Minute, "an exec that hangs", func(ctx context.Context) error {
		began := time.Now()
		_, err := d.Execs().Run(ctx, api.Exec{Argv: []string{"true"}, TimeoutMS: 5000})
		if !hung(err) {
			return fmt.Errorf("it ended with %w", err)
		}
		t.Logf("%v after %s", err, time.Since(began).Round(time.Second))
		return nil
	})
	quick := time.Now()
	if got := other.sh(t, "echo unmoved"); got != "unmoved\n" || time.Since(quick) > 20*time.Second {
		t.Errorf("the other desktop: %q after %s", got, time.Since(quick))
	}
	d.until(t, 3*time.Minute, "an exec that answers", func(ctx context.Context) error {
		res, err := d.Execs().Run(ctx, api.Exec{Argv: []string{"echo", "back"}, TimeoutMS: 5000})
		if err == nil && string(res.Stdout) != "back\n" {
			err = errors.New(string(res.Stdout))
		}
		return err
	})
	var out, want strings.Builder
	for i := range 100 {
		fmt.Fprintln(&want, i+1)
	}
	end, err := d.Execs().Attach(t.Context(), counts.ID, client.Streams{Stdout: &out})
	if err != nil || end.ExitCode != 0 || out.String() != want.String() {
		t.Errorf("the program that ran on: %+v, %v, %d bytes of %d", end, err, out.Len(), want.Len())
	}
}

// hung reports whether err is what a call to a guest that does not answer may
// end with.
func hung(err error) bool { return is(err, api.CodeDeadline) || is(err, api.CodeGuestUnavail) }
