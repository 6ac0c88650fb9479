package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/pkg/api/client"
)

// execs compares a program that does nothing with a warm ssh: ours from a Go
// client with Go's ssh client, both with one open connection, and our command
// line with OpenSSH's, a process a call each.
func execs(ctx context.Context, l *local, out io.Writer) error {
	sshd, err := startSSH(ctx, l)
	if err != nil {
		return err
	}
	defer sshd.close()
	lib, err := sshd.library(ctx)
	if err != nil {
		return err
	}
	defer lib.Close() //nolint:errcheck // nothing is on its way
	return race(ctx, out, "exec true, round trip", 50,
		contender{name: "exec, Go client", do: func(ctx context.Context) error {
			_, err := l.desk.Exec(ctx, "true")
			return err
		}},
		contender{name: "ssh, Go client, a session a call", do: func(context.Context) error { return session(lib, "true") }},
		contender{name: "ssh, ControlMaster", do: func(ctx context.Context) error { return sshd.run(ctx, "ssh", "guest", "true") }},
		contender{name: "vmhost exec", do: func(ctx context.Context) error { return l.vmhost(ctx, "exec", "bench", "--", "true") }},
	)
}

// copies compares a file of 64 MiB both ways with scp.
func copies(ctx context.Context, l *local, out io.Writer) error {
	const size = 64 << 20
	sshd, err := startSSH(ctx, l)
	if err != nil {
		return err
	}
	defer sshd.close()
	file := filepath.Join(sshd.dir, "payload")
	payload := bytes.Repeat([]byte("sixteen bytes.\r\n"), size/16)
	if err := os.WriteFile(file, payload, 0o600); err != nil {
		return err
	}
	if err := race(ctx, out, "copy of 64 MiB into the guest", 5,
		contender{name: "files", do: func(ctx context.Context) error {
			_, err := l.desk.Files().Write(ctx, "/tmp/bench-a", bytes.NewReader(payload), client.WriteOptions{})
			return err
		}},
		contender{name: "scp", do: func(ctx context.Context) error { return sshd.run(ctx, "scp", file, "guest:/tmp/bench-b") }}); err != nil {
		return err
	}
	return race(ctx, out, "copy of 64 MiB out of the guest", 5,
		contender{name: "files", do: func(ctx context.Context) error {
			r, err := l.desk.Files().Open(ctx, "/tmp/bench-a")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		}},
		contender{name: "scp", do: func(ctx context.Context) error { return sshd.run(ctx, "scp", "guest:/tmp/bench-b", file+".back") }})
}
