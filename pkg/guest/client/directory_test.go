package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
)

func TestManyEntries(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	const n = 20000 // the list is larger than any one message may be
	for i := range n {
		write(t, filepath.Join(dir, fmt.Sprintf("entry-%06d", i)), "")
	}
	if list, err := c.Files.List(soon(t), dir, false); err != nil || len(list) != n {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

func TestWatch(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	changes, err := c.Files.Watch(ctx, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(op, path string) {
		t.Helper()
		for change := range changes {
			if change.Op == op && change.Path == path {
				return
			}
		}
		t.Fatalf("the watch ended before %s %s", op, path)
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("create", sub)
	deep := filepath.Join(sub, "deep")
	write(t, deep, "x")
	expect("create", deep)
	if err := os.Rename(deep, deep+"2"); err != nil {
		t.Fatal(err)
	}
	expect("create", deep+"2")
	if err := os.Remove(deep + "2"); err != nil {
		t.Fatal(err)
	}
	expect("remove", deep+"2")
	g.Cut()
	expect("overflow", dir)
	write(t, filepath.Join(dir, "after"), "x")
	expect("create", filepath.Join(dir, "after"))
	cancel()
	for range changes { // ends
	}
	once := filepath.Join(dir, "once")
	write(t, once, "x")
	changes, err = c.Files.Watch(soon(t), once, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(once); err != nil {
		t.Fatal(err)
	}
	expect("remove", once)
	for range changes {
	}
}
