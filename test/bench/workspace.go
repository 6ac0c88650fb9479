package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
	"github.com/deskfork/deskfork/test/bench/tree"
	"github.com/deskfork/deskfork/test/harness"
)

// keeping measures checkpoints and restores of a desktop's workspace against
// restic on the same tree, in the same S3 server, in turn. restic runs on the host
// and reads a copy of the tree there: it is spared the guest.
type keeping struct {
	daemon *harness.Daemon
	desk   *client.Desktop
	restic *tree.Restic
	tree   *tree.Tree
	sent   *sent
	out    io.Writer
	rounds func(int) int
	ends   []func()
}

// files is the name of the workspace.
const files = "tree"

// sent counts bytes of bodies on their way to the store, by the beginning of
// their path.
type sent struct {
	mu sync.Mutex
	by map[string]int64
}

func (s *sent) count(r *http.Request) s3test.Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(part) > 1 {
		s.by[part[1]] += max(r.ContentLength, 0)
	}
	return s3test.Trouble{}
}

func (s *sent) of(part string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[part]
}

// runKeeping sets the stage, which takes some minutes, and measures.
func runKeeping(ctx context.Context, o options, out io.Writer) (err error) {
	k := &keeping{out: out, rounds: o.rounds, sent: &sent{by: map[string]int64{}}}
	defer func() {
		for _, end := range slices.Backward(k.ends) {
			end()
		}
	}()
	dir, err := os.MkdirTemp(o.data, "bench-workspace-")
	if err != nil {
		return err
	}
	k.ends = append(k.ends, func() { _ = os.RemoveAll(dir) })
	if err := k.prepare(ctx, o, dir); err != nil {
		return err
	}
	if err := k.full(ctx); err != nil {
		return err
	}
	if err := k.incremental(ctx); err != nil {
		return err
	}
	return k.restore(ctx, dir)
}

// prepare starts the store, the daemon and a desktop, and makes the tree on both
// sides.
func (k *keeping) prepare(ctx context.Context, o options, dir string) error {
	addr, stop, err := s3test.Run(ctx, filepath.Join(dir, "s3"))
	if err != nil {
		return err
	}
	k.ends = append(k.ends, stop)
	proxy, stop, err := s3test.RunProxy(ctx, addr, k.sent.count)
	if err != nil {
		return err
	}
	k.ends = append(k.ends, stop)
	keys := filepath.Join(dir, "keys")
	text := "AWS_ACCESS_KEY_ID=" + s3test.AccessKey + "\nAWS_SECRET_ACCESS_KEY=" + s3test.SecretKey + "\n"
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		return err
	}
	if k.daemon, err = harness.New(ctx, o.bin, o.data); err != nil {
		return err
	}
	k.ends = append(k.ends, k.daemon.Remove)
	k.daemon.Args = []string{"--blobs", "s3://" + s3test.Bucket + "/deskfork", "--s3-endpoint", proxy.Addr, "--s3-plain", "--s3-credentials", keys}
	if err := k.daemon.Start(ctx); err != nil {
		return err
	}
	k.ends = append(k.ends, k.daemon.Stop)
	if k.desk, err = k.create(ctx, api.CreateDesktop{WorkspaceMiB: 1280}); err != nil {
		return err
	}
	k.ends = append(k.ends, func() { _ = k.desk.Delete(context.WithoutCancel(ctx)) })
	if k.tree, err = tree.Make(filepath.Join(dir, "tree"), o.quick); err != nil {
		return err
	}
	if err := k.tree.CopyTo(ctx, k.desk); err != nil {
		return fmt.Errorf("copy the tree into the guest: %w", err)
	}
	k.restic, err = tree.NewRestic(ctx, dir, proxy.Addr)
	return err
}

func (k *keeping) create(ctx context.Context, spec api.CreateDesktop) (*client.Desktop, error) {
	spec.Image = "debian-xfce"
	return k.daemon.Client.Desktops().Create(ctx, spec, client.Until(api.StageDrawn), client.Within(harness.BootTimeout))
}

// full measures the first checkpoint and the first backup: once, since it is the
// first.
func (k *keeping) full(ctx context.Context) error {
	fmt.Fprintf(k.out, "first of %s in %d files, to S3\n", mib(k.tree.Bytes), k.tree.Files)
	begin := time.Now()
	c, err := k.desk.Checkpoint(ctx, api.CreateCheckpoint{Workspace: files})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	fmt.Fprintf(k.out, "  %-34s  %8.2f s   %s uploaded   writes waited %.0f ms\n", "checkpoint", took.Seconds(), mib(k.sent.of("deskfork")), c.FrozenMS)
	begin = time.Now()
	if err := k.restic.Run(ctx, "backup", "--quiet", k.tree.Dir); err != nil {
		return err
	}
	theirs := time.Since(begin)
	fmt.Fprintf(k.out, "  %-34s  %8.2f s   %s uploaded   %.1f× the first\n", "restic backup", theirs.Seconds(), mib(k.sent.of("restic")), theirs.Seconds()/took.Seconds())
	return nil
}

// incremental measures what follows 8 MiB appended and 500 times 4 KiB rewritten.
func (k *keeping) incremental(ctx context.Context) error {
	var uploads [2][]int64
	var frozen []float64
	counted := func(i int, part string, do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			before := k.sent.of(part)
			err := do(ctx)
			uploads[i] = append(uploads[i], k.sent.of(part)-before)
			return err
		}
	}
	err := race(ctx, k.out, "after 8 MiB appended and 500 times 4 KiB rewritten", k.rounds(7),
		contender{
			name:   "checkpoint",
			before: func(ctx context.Context, n int) error { return k.tree.ChangeIn(ctx, k.desk, n) },
			do: counted(0, "deskfork", func(ctx context.Context) error {
				c, err := k.desk.Checkpoint(ctx, api.CreateCheckpoint{})
				frozen = append(frozen, c.FrozenMS)
				if err == nil && c.Full != "" {
					err = errors.New("all of the disk was read: " + c.Full)
				}
				return err
			}),
		},
		contender{
			name:   "restic backup",
			before: func(_ context.Context, n int) error { return k.tree.Change(n) },
			do:     counted(1, "restic", func(ctx context.Context) error { return k.restic.Run(ctx, "backup", "--quiet", k.tree.Dir) }),
		},
	)
	if err != nil {
		return err
	}
	for i, name := range []string{"checkpoint", "restic backup"} {
		slices.Sort(uploads[i])
		median := uploads[i][len(uploads[i])/2]
		fmt.Fprintf(k.out, "  %-34s  p50 %s uploaded, %.2f× what was changed\n", name, mib(median), float64(median)/tree.Changed)
	}
	slices.Sort(frozen)
	fmt.Fprintf(k.out, "  %-34s  p50 %.0f ms   most %.0f ms\n", "writes in the guest waited", frozen[len(frozen)/2], frozen[len(frozen)-1])
	return nil
}

// restore measures the way back: ours to a desktop that has all files, verified,
// theirs to a directory; and until the first byte of one file is read.
func (k *keeping) restore(ctx context.Context, dir string) error {
	first := filepath.Join("large", "0")
	var made *client.Desktop
	var machine series
	desk := contender{
		name: "desktop with the workspace",
		do: func(ctx context.Context) (err error) {
			if made, err = k.create(ctx, api.CreateDesktop{Workspace: files}); err != nil {
				return err
			}
			res, err := made.Exec(ctx, "head", "-c1", "/workspace/"+first)
			if err == nil && len(res.Stdout) != 1 {
				err = fmt.Errorf("read the first byte: %s", res.Stderr)
			}
			return err
		},
		after: func(ctx context.Context) error {
			v, err := made.Get(ctx)
			for _, s := range v.Stages {
				if s.Stage == api.StageMachine {
					machine = append(machine, time.Duration(s.TookMS)*time.Millisecond)
				}
			}
			return errors.Join(err, made.Delete(ctx))
		},
	}
	target := filepath.Join(dir, "restored")
	err := race(ctx, k.out, "restore of all, to the first byte of a file included", k.rounds(3), desk,
		contender{
			name: "restic restore",
			do: func(ctx context.Context) error {
				return k.restic.Run(ctx, "restore", "--quiet", "latest", "--target", target)
			},
			after: func(context.Context) error { return os.RemoveAll(target) },
		},
		contender{
			name: "restic dump, to the first byte",
			do:   func(ctx context.Context) error { return k.restic.First(ctx, filepath.Join(k.tree.Dir, first)) },
		},
	)
	line(k.out, "of ours: the disk and the machine", machine, nil, false)
	return err
}

func mib(n int64) string { return fmt.Sprintf("%8.2f MiB", float64(n)/(1<<20)) }
