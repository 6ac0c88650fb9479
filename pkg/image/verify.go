package image

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Verify reads all of an image and compares it with its manifest: seconds a GiB. The error
// is a *CorruptError for the first file that differs. Get and Resolve do the cheap part.
func (s *Store) Verify(ctx context.Context, d Digest) error {
	m, err := s.Get(d)
	if err != nil {
		return err
	}
	hashes := map[string]func(context.Context, string) (File, error){
		m.Disk.Format.File(): DiskDigest,
		KernelFile:           FileDigest,
		InitrdFile:           FileDigest,
	}
	for name, want := range m.files() {
		got, err := hashes[name](ctx, filepath.Join(s.Path(d), name))
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("verify image %s: %w", d.Short(), err)
		case err != nil:
			return &CorruptError{Image: string(d), File: name, Reason: "cannot be read", Err: err}
		case got != want:
			return &CorruptError{
				Image: string(d), File: name,
				Reason: fmt.Sprintf("content is %s, want %s", got.Digest.Short(), want.Digest.Short()),
			}
		}
	}
	return nil
}
