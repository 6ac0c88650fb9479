package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/deskfork/deskfork/pkg/api"
)

// Outputs puts deliverables into a directory, which is made at need; read writes one
// of them. Names that lead out of the directory are refused by it. Each file is made
// whole or not at all.
func Outputs(ctx context.Context, dir string, list []api.OutputFile, read func(ctx context.Context, path string, w io.Writer) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("outputs are published, and were not fetched: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("outputs are published, and were not fetched: %w", err)
	}
	defer root.Close()
	for _, file := range list {
		if err := output(ctx, root, file.Path, read); err != nil {
			return err
		}
	}
	return nil
}

func output(ctx context.Context, root *os.Root, name string, read func(ctx context.Context, path string, w io.Writer) error) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("fetch output: %w", err)
		}
	}
	part := path.Join(path.Dir(name), fmt.Sprintf(".vmhost-%d", os.Getpid()))
	w, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("fetch output: %w", err)
	}
	err = read(ctx, name, w)
	if err = errors.Join(err, w.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}
