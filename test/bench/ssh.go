package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// sshd is the guest's own SSH server, with a key that it knows and the ways to
// it. Neither way goes through the product: its connections are those of the
// desktop's private network.
type sshd struct {
	l    *local
	dir  string // key, config, control socket
	stop func() // of the port
}

const sshSetup = "chmod 700 /home/agent/.ssh && chown -R agent: /home/agent/.ssh && ssh-keygen -A >/dev/null && systemctl start ssh"

// startSSH starts sshd in the guest, and gives it a port of the loopback for
// programs that want one.
func startSSH(ctx context.Context, l *local) (_ *sshd, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	s := &sshd{l: l, dir: dir, stop: func() {}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "key")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		return nil, err
	}
	const keys = "/home/agent/.ssh/authorized_keys"
	if _, err := l.desk.Files().Write(ctx, keys, bytes.NewReader(pub), client.WriteOptions{Mode: 0o600, Parents: true}); err != nil {
		return nil, err
	}
	if res, err := l.desk.Execs().Run(ctx, api.Exec{Shell: sshSetup, User: "root"}); err != nil || res.ExitCode != 0 {
		return nil, fmt.Errorf("start sshd in the guest: %w: %s", err, res.Stderr)
	}
	port, stop, err := s.forward(ctx)
	if err != nil {
		return nil, err
	}
	s.stop = stop
	config := fmt.Sprintf("Host guest\n HostName 127.0.0.1\n Port %d\n User agent\n IdentityFile %s/key\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n ControlMaster auto\n ControlPath %s/ctl\n ControlPersist 600\n", port, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s, s.run(ctx, "ssh", "guest", "true")
}

// run runs OpenSSH's ssh or scp; they share one warm connection (ControlMaster).
func (s *sshd) run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, append([]string{"-F", filepath.Join(s.dir, "config")}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// library opens one connection of Go's ssh client, in this process.
func (s *sshd) library(ctx context.Context) (*ssh.Client, error) {
	key, err := os.ReadFile(filepath.Join(s.dir, "key"))
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return nil, err
	}
	conn, err := s.l.dial(ctx, 22)
	if err != nil {
		return nil, err
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, "guest:22", &ssh.ClientConfig{
		User: "agent", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // a private cable to a guest of our own
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// session runs a command in a new session of an open connection.
func session(c *ssh.Client, command string) error {
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has ended
	return s.Run(command)
}

func (s *sshd) close() {
	_ = exec.Command("ssh", "-F", filepath.Join(s.dir, "config"), "-O", "exit", "guest").Run() //nolint:noctx // clean-up outlives the run
	s.stop()
	_ = os.RemoveAll(s.dir)
}

// forward listens on the loopback and carries each connection to sshd, until
// stop.
func (s *sshd) forward(ctx context.Context) (int, func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer near.Close()
				far, err := s.l.dial(ctx, 22)
				if err != nil {
					return
				}
				stop := context.AfterFunc(ctx, func() { far.Close(); near.Close() })
				defer stop()
				defer far.Close()
				wg.Go(func() { _, _ = io.Copy(far, near); far.Close() })
				_, _ = io.Copy(near, far)
			})
		}
	})
	return l.Addr().(*net.TCPAddr).Port, func() { cancel(); l.Close(); wg.Wait() }, nil
}
