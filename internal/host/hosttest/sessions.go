package hosttest

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/sessions/provision"
)

// Work starts the desk of sessions on the present host until stop is called, which
// waits for its end, or the test ends. Guests' programs are real: dir has their
// workspace, inputs and outputs, of which on real desktops the first is a disk. What
// installs packages is looked for in dir's folder bin first. change adjusts its
// configuration.
func (f *Fixture) Work(dir string, change ...func(*sessions.Config)) (d *sessions.Desk, stop func()) {
	f.tb.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "workspace"), 0o700); err != nil {
		f.tb.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		f.tb.Fatal(err)
	}
	c := sessions.Config{
		Host: f.Host, Stores: f.Sessions.Stores(), Publications: f.Sessions.Publications, DataDir: f.Config.DataDir,
		Suspends: true, Exports: len(f.Config.Blobs.Key) > 0, Reconcile: 20 * time.Millisecond,
		EndLeases: func(context.Context) error { f.Sessions.EndLeases(); return nil },
		Workspace: filepath.Join(dir, "workspace"), Inputs: filepath.Join(dir, "inputs"), Outputs: filepath.Join(dir, "outputs"),
		System: provision.System{
			User: me.Username, Dir: filepath.Join(dir, "system"), Env: map[string]string{"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"},
		},
	}
	for _, fn := range change {
		fn(&c)
	}
	if d, err = sessions.New(c); err != nil {
		f.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			f.tb.Errorf("sessions: %v", err)
		}
	})
	<-d.Ready()
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	f.tb.Cleanup(stop)
	return d, stop
}
