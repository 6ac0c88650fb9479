package tree

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/deskfork/deskfork/pkg/blob/s3test"
)

// Restic is Debian's, on the host, with a repository in the same bucket.
type Restic struct{ env []string }

// NewRestic makes the repository; its cache lies in dir, the S3 server at addr.
func NewRestic(ctx context.Context, dir, addr string) (*Restic, error) {
	r := &Restic{env: append(os.Environ(),
		"AWS_ACCESS_KEY_ID="+s3test.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3test.SecretKey,
		"RESTIC_REPOSITORY=s3:http://"+addr+"/"+s3test.Bucket+"/restic", "RESTIC_PASSWORD=bench", "RESTIC_CACHE_DIR="+filepath.Join(dir, "cache"),
	)}
	return r, r.Run(ctx, "init", "--quiet")
}

// Run runs one of its commands.
func (r *Restic) Run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "restic", args...)
	cmd.Env = r.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restic %s: %w: %s", args[0], err, out)
	}
	return nil
}

// First returns when the first byte of a file of the latest snapshot has come.
func (r *Restic) First(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "restic", "dump", "latest", name)
	cmd.Env = r.env
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	cancel()
	_ = cmd.Wait() // it was not let finish
	return err
}
