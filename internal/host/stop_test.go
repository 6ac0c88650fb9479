package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// TestDeleteWhileStopping: a removal that the host does not live to finish
// is not told as done.
func TestDeleteWhileStopping(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := f.Create(api.CreateDesktop{Name: "one"})
	trying := make(chan struct{})
	try := sync.OnceFunc(func() { close(trying) })
	f.Machine(d.ID).OnDestroy(func() error {
		try()
		f.StopRun()
		return errors.New("the directory is busy")
	})
	first := f.Host.Delete(ctx, project, d.ID)
	if e := problem(t, first); e.Stage != "delete" {
		t.Errorf("a removal that failed while the host stopped answers %+v", e)
	}
	<-trying
	f.WaitRun()
	if e := problem(t, f.Host.Delete(ctx, project, d.ID)); e.Code != api.CodeGuestUnavail || e.Stage != "delete" {
		t.Errorf("a host that has stopped answers %+v", e)
	}
}

// leftover is a provider that could not remove all.
type leftover struct {
	vm.Provider
	err error
}

func (l leftover) Recover(ctx context.Context) ([]vm.Machine, error) {
	list, err := l.Provider.Recover(ctx)
	return list, errors.Join(err, l.err)
}

func TestStartDespiteLeftovers(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	d := f.Create(api.CreateDesktop{Name: "one"})
	f.Stop()
	f.Config.Provider = leftover{f.Provider, fmt.Errorf("remove cgroup: %w", vm.ErrLeftover)}
	f.Start()
	if v, err := f.Host.Wait(patient(t), project, d.ID, api.StageDrawn); err != nil || !v.Adopted {
		t.Errorf("a desktop beside a leftover is %+v, %v", v, err)
	}
	f.Stop()
	f.Config.Provider = leftover{f.Provider, errors.New("another daemon runs")}
	h, err := host.New(t.Context(), f.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Errorf("a host that finds nothing out runs: %v", err)
	}
}
