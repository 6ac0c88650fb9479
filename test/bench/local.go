package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
	"github.com/deskfork/deskfork/test/harness"
)

// local is the whole product in this process, behind its API on loopback as
// ever. So the peers can dial the guest through the very network that the
// product's own link takes, instead of through the product.
type local struct {
	dirs    *harness.Daemon // its directories and port; the program is not run
	client  *client.Client
	desk    *client.Desktop
	network atomic.Pointer[vmnet.Network]
	end     func() error
}

// startLocal serves, and boots one desktop until it is drawn.
func startLocal(ctx context.Context, bin, data string) (*local, error) {
	dirs, err := harness.New(ctx, bin, data)
	if err != nil {
		return nil, err
	}
	l := &local{dirs: dirs}
	if err := l.serve(ctx); err != nil {
		dirs.Remove()
		return nil, err
	}
	l.desk, err = l.client.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "bench"},
		client.Until(api.StageDrawn), client.Within(10*time.Minute))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a desktop: %w", err), l.close(ctx))
	}
	return l, nil
}

func (l *local) serve(ctx context.Context) error {
	provider, err := l.provider()
	if err != nil {
		return err
	}
	store, err := image.Open(image.Config{Dir: filepath.Join(l.dirs.Data, "images")})
	if err != nil {
		return errors.Join(err, provider.Close())
	}
	db, err := sqlstore.OpenSQLite(ctx, filepath.Join(l.dirs.Data, sqlstore.FileName))
	if err != nil {
		return errors.Join(err, provider.Close())
	}
	h, err := host.New(ctx, host.Config{
		DataDir: l.dirs.Data, Provider: provider, Images: adapter.Images{Store: store}, Open: adapter.Opener,
		Fences: workspaces.Fences{Fences: db.Stores().Fences, Publications: db.Publications},
	})
	if err != nil {
		return errors.Join(err, db.Close(), provider.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { _ = h.Run(running) }) // ends with running alone
	l.end = func() error {
		stop()
		work.Wait()
		return errors.Join(h.Close(), db.Close(), provider.Close())
	}
	srv, err := server.New(server.Config{Host: h, Address: l.dirs.Address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return errors.Join(err, l.end())
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", l.dirs.Address)
	if err != nil {
		return errors.Join(err, l.end())
	}
	web := &http.Server{Handler: srv, ReadHeaderTimeout: time.Minute}
	work.Go(func() { _ = web.Serve(ln) }) // ends when it is closed
	endHost := l.end
	l.end = func() error { return errors.Join(web.Close(), endHost()) }
	token, err := h.FirstToken(ctx)
	if err != nil {
		return errors.Join(err, l.end())
	}
	if l.client, err = client.New("http://"+l.dirs.Address, client.WithTokenFile(token)); err != nil {
		return errors.Join(err, l.end())
	}
	<-h.Ready()
	return nil
}

func (l *local) provider() (*qemu.Provider, error) {
	var user *qemu.User
	if os.Geteuid() == 0 {
		var err error
		if user, err = qemu.LookupUser("nobody"); err != nil {
			return nil, err
		}
	}
	return qemu.New(qemu.Config{
		DataDir: l.dirs.Data, RuntimeDir: l.dirs.Run, User: user,
		Network: func(_ context.Context, spec qemu.NetworkSpec) (qemu.Network, error) {
			n, err := vmnet.Open(vmnet.Config{Local: spec.Local, Remote: spec.Remote, Mode: spec.Mode, Logger: spec.Logger})
			l.network.Store(n)
			return n, err
		},
	})
}

// dial opens a connection to a port of the guest, straight through its network.
func (l *local) dial(ctx context.Context, port int) (net.Conn, error) {
	return l.network.Load().DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", vm.GuestIP, port))
}

// vmhost runs our command line against it.
func (l *local) vmhost(ctx context.Context, args ...string) error {
	args = append([]string{"--address", "http://" + l.dirs.Address, "--data-dir", l.dirs.Data}, args...)
	out, err := exec.CommandContext(ctx, l.dirs.Bin, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("vmhost %v: %w: %s", args, err, out)
	}
	return nil
}

func (l *local) close(ctx context.Context) error {
	defer l.dirs.Remove()
	var err error
	if l.desk != nil {
		err = l.desk.Delete(context.WithoutCancel(ctx))
	}
	return errors.Join(err, l.end())
}
