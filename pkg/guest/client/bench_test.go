package client_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

func BenchmarkWrite(b *testing.B) {
	c := guesttest.Start(b, guesttest.Config{}).Client(b)
	file := filepath.Join(b.TempDir(), "file")
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, err := c.Files.Write(context.Background(), file, client.WriteOptions{}, io.LimitReader(zeros{}, size)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	c := guesttest.Start(b, guesttest.Config{}).Client(b)
	file := filepath.Join(b.TempDir(), "file")
	const size = 64 << 20
	if _, err := c.Files.Write(context.Background(), file, client.WriteOptions{}, io.LimitReader(zeros{}, size)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		r, _, err := c.Files.Read(context.Background(), file, 0, -1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

func BenchmarkRunTrue(b *testing.B) {
	c := guesttest.Start(b, guesttest.Config{}).Client(b)
	for b.Loop() {
		if _, err := c.Exec.Output(context.Background(), guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
