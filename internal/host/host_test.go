package host_test

import (
	"context"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

func TestSlice(t *testing.T) {
	f := hosttest.New(t)
	d := f.Create(api.CreateDesktop{Name: "one", Env: map[string]string{"A": "b"}})
	if d.State != api.StateReady || len(d.Stages) != 6 {
		t.Fatalf("desktop is %+v", d)
	}
	res, err := f.Host.Exec(context.Background(), hosttest.Project, "one", api.Exec{Shell: "echo $A; exit 3"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Stdout) != "b\n" || res.ExitCode != 3 {
		t.Errorf("exec answered %q, %d", res.Stdout, res.ExitCode)
	}
}
