//go:build integration

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// bootTimeout is how long a cold boot may take on a slow host under software
// emulation.
const bootTimeout = 6 * time.Minute

// host is the daemon and desk the desktop that all tests share.
var (
	host *harness.Daemon
	desk *client.Desktop
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*bootTimeout)
	defer cancel()
	d, err := harness.New(ctx, "../../bin/vmhost", os.Getenv("DESKFORK_E2E_DATA"))
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
	defer d.Stop()
	begin := time.Now()
	desk, err = d.Client.Desktops().Create(ctx, api.CreateDesktop{
		Image: "debian-xfce", Name: "main", WorkspaceMiB: 512,
		Labels: map[string]string{"suite": "e2e"},
		Env:    map[string]string{"DESKFORK_E2E": "from create"},
	}, client.Until(api.StageDrawn), client.Within(bootTimeout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: create the shared desktop:", err)
		d.DumpLog()
		return 1
	}
	fmt.Fprintf(os.Stderr, "e2e: cold boot to drawn in %s\n", time.Since(begin).Round(time.Second))
	code := m.Run()
	if code != 0 {
		d.DumpLog()
	}
	if err := desk.Delete(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: delete the shared desktop:", err)
		return 1
	}
	return code
}
