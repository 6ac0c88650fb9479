//go:build integration

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// host is the daemon that all tests share, and pool its desktops.
var (
	host *harness.Daemon
	pool *harness.Pool
)

// desktops are two, because most tests wait for a guest most of the time: the
// other one works meanwhile.
var desktops = []api.CreateDesktop{{Name: "main"}, {Name: "side"}}

// holdLimit is how long one test may keep a slot, and a desktop, that others wait for.
const holdLimit = 4 * time.Minute

// slots holds a token for each test that works at a time, beyond those that wait
// for a desktop. Emulated guests take all cores they get: with more of them each
// test is as late as all, and their deadlines pass.
var slots = make(chan struct{}, runtime.NumCPU()+1)

func TestMain(m *testing.M) {
	flag.Parse()
	const waiting = "100" // for a desktop, for a slot, or for all others
	if err := flag.Set("test.parallel", waiting); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(suite(m))
}

func suite(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.BootTimeout)
	defer cancel()
	d, err := harness.Kept(ctx, "../../bin/vmhost", os.Getenv("DESKFORK_E2E_DATA"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer d.Remove()
	if err := d.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	host = d
	defer func() { host.Stop() }()
	begin := time.Now()
	for i := range desktops { // all of one shape: clones of one boot snapshot
		desktops[i].Image, desktops[i].WorkspaceMiB = "debian-xfce", 512
		desktops[i].Labels = map[string]string{"suite": "e2e"}
		desktops[i].Env = map[string]string{"DESKFORK_E2E": "from create"}
	}
	if pool, err = harness.NewPool(ctx, d, desktops...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		d.DumpLog()
		return 1
	}
	fmt.Fprintf(os.Stderr, "e2e: the first desktop is drawn after %s\n", time.Since(begin).Round(time.Second))
	code := m.Run()
	if err := pool.Close(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if code != 0 {
		d.DumpLog()
	}
	return code
}

// desk is a desktop that one test has to itself. The test leaves it as it was.
type desk struct{ *client.Desktop }

// ordinary counts the tests that alone waits for. Every test adds itself before
// it runs in parallel, and none runs before all have.
var ordinary sync.WaitGroup

// beside makes the test one that runs beside others.
func beside(t *testing.T) {
	t.Helper()
	join(t)
	work(t)
}

func join(t *testing.T) {
	t.Helper()
	ordinary.Add(1)
	t.Cleanup(ordinary.Done)
	t.Parallel()
}

// work waits for a slot, which the test has until it ends.
func work(t *testing.T) {
	t.Helper()
	select {
	case slots <- struct{}{}:
		t.Cleanup(func() { <-slots })
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	worked(t, holdLimit)
}

// worked logs what a test took without its waiting: scripts/test.sh lists that.
func worked(t *testing.T, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	t.Cleanup(func() {
		took := time.Since(begin)
		t.Logf("worked: %s (%.1fs)", t.Name(), took.Seconds())
		if took > limit {
			t.Logf("a test has %s: split it", limit)
		}
	})
}

// lend takes a desktop from the pool for a test that runs beside others.
func lend(t *testing.T) desk {
	t.Helper()
	join(t)
	d := take(t, 1)[0]
	work(t)
	return d
}

// alone takes all desktops when all other tests are done, for one that breaks
// the daemon.
func alone(t *testing.T) []desk {
	t.Helper()
	t.Parallel()
	ordinary.Wait()
	desks := take(t, len(desktops))
	worked(t, holdLimit)
	return desks
}

func take(t *testing.T, n int) []desk {
	t.Helper()
	taken, err := pool.Take(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Give(taken...) })
	desks := make([]desk, n)
	for i, d := range taken {
		desks[i] = desk{d}
	}
	return desks
}

// breakable makes a desktop that the test may break.
func breakable(t *testing.T, spec api.CreateDesktop, until api.Stage) desk {
	t.Helper()
	spec.Image = "debian-xfce"
	d, err := host.Client.Desktops().Create(t.Context(), spec, client.Until(until), client.Within(harness.BootTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Delete(context.Background()); err != nil && !is(err, api.CodeNotFound) {
			t.Errorf("delete %s: %v", d.Ref(), err)
		}
	})
	return desk{d}
}
