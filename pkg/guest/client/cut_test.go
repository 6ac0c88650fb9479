package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// breaking is a connection that dies after a number of bytes, read or written.
type breaking struct {
	net.Conn
	left atomic.Int64
}

func (b *breaking) spend(n int) error {
	if b.left.Add(-int64(n)) < 0 {
		b.Close()
		return errors.New("the wire was cut")
	}
	return nil
}

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p[:min(len(p), 4096)])
	if err == nil {
		err = b.spend(n)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (b *breaking) Write(p []byte) (int, error) {
	if err := b.spend(len(p)); err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}

// fragile returns a dialer whose connections die at random offsets.
func fragile(g *guesttest.Guest, seed uint64, most int64) func(context.Context) (net.Conn, error) {
	rng := rand.New(rand.NewPCG(seed, seed))
	var mu sync.Mutex
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := g.Dial(ctx)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		b := &breaking{Conn: conn}
		b.left.Store(1500 + rng.Int64N(most))
		return b, nil
	}
}

func TestAttachGoesOnAfterCuts(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := guesttest.Run(t, client.Config{Dial: fragile(g, 7, 900<<10), Token: guesttest.Token})
	const size = 12 << 20
	spec := guest.ExecSpec{
		ID: "stream", Ring: 16 << 20,
		Shell: fmt.Sprintf("head -c %d /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 2>/dev/null | tee /dev/stderr", size),
	}
	var out, errs bytes.Buffer
	cuts := 0
	for {
		if _, err := c.Exec.Start(soon(t), spec); errors.Is(err, client.ErrLinkLost) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		break
	}
	for {
		a, err := c.Exec.Attach(soon(t), "stream", client.AttachOptions{OutFrom: int64(out.Len()), ErrFrom: int64(errs.Len())})
		if errors.Is(err, client.ErrLinkLost) {
			cuts++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if a.OutFrom != int64(out.Len()) || a.ErrFrom != int64(errs.Len()) {
			t.Fatalf("bytes were dropped: %d of %d, %d of %d", a.OutFrom, out.Len(), a.ErrFrom, errs.Len())
		}
		var work sync.WaitGroup
		var errErr error
		work.Go(func() { _, errErr = io.Copy(&errs, a.Stderr) })
		_, err = io.Copy(&out, a.Stdout)
		work.Wait()
		detach(t, a)
		if err == nil && errErr == nil {
			break
		}
		cuts++
	}
	if cuts < 5 {
		t.Errorf("only %d cuts: the test proves little", cuts)
	}
	if out.Len() != size || sha256.Sum256(out.Bytes()) != sha256.Sum256(errs.Bytes()) {
		t.Errorf("%d and %d bytes came, or not the same", out.Len(), errs.Len())
	}
	clean := guesttest.Start(t, guesttest.Config{NoDesktop: true}).Client(t)
	spec.ID = ""
	want, err := clean.Exec.Run(soon(t), spec, nil)
	if err != nil || !bytes.Equal(want.Stdout, out.Bytes()) {
		t.Errorf("the output is not that of an unbroken run (%v)", err)
	}
}

func TestStdinGoesOnAfterCuts(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := guesttest.Run(t, client.Config{Dial: fragile(g, 3, 700<<10), Token: guesttest.Token})
	all, err := io.ReadAll(noise(9, 4<<20))
	if err != nil {
		t.Fatal(err)
	}
	spec := guest.ExecSpec{ID: "sum", Argv: []string{"sha256sum"}, Stdin: true}
	for cuts := 0; ; cuts++ {
		_, err := c.Exec.Start(soon(t), spec)
		if errors.Is(err, client.ErrLinkLost) {
			continue
		}
		a, err := c.Exec.Attach(soon(t), "sum", client.AttachOptions{Stdin: true})
		if errors.Is(err, client.ErrLinkLost) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Stdin.Write(all[a.Status.In:])
		if err == nil {
			err = a.Stdin.Close()
		}
		var sum []byte
		if err == nil {
			sum, err = io.ReadAll(a.Stdout)
		}
		detach(t, a)
		if err != nil {
			continue
		}
		if want := fmt.Sprintf("%x  -\n", sha256.Sum256(all)); string(sum) != want {
			t.Errorf("sum %q, want %q", sum, want)
		}
		if cuts < 3 {
			t.Errorf("only %d cuts: the test proves little", cuts)
		}
		return
	}
}

func TestRunGoesOnAfterCuts(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := guesttest.Run(t, client.Config{Dial: fragile(g, 11, 300<<10), Token: guesttest.Token})
	res, err := c.Exec.Run(soon(t), shell("seq 1 200000; echo done >&2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for i := range 200000 {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(res.Stdout, want.Bytes()) || string(res.Stderr) != "done\n" {
		t.Errorf("%d bytes of output, want %d; stderr %q; %+v", len(res.Stdout), want.Len(), res.Stderr, res.Status)
	}
}

// freezing swallows what is written while it is frozen.
type freezing struct {
	net.Conn
	frozen *atomic.Bool
}

func (f *freezing) Write(p []byte) (int, error) {
	if f.frozen.Load() {
		return len(p), nil
	}
	return f.Conn.Write(p)
}
