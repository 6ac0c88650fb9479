package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// ssh is OpenSSH with a warm ControlMaster to the guest's own sshd. The guest
// has no port on the host, so its connection goes through ours, as a stream of
// bytes; what is compared is the cost of a command over a link that is open.
type ssh struct {
	dir  string // key, config, control socket
	stop func()
}

func (b *bench) startSSH(ctx context.Context) (*ssh, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "key")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	pub, err := os.Open(filepath.Join(dir, "key.pub"))
	if err != nil {
		return nil, err
	}
	defer pub.Close()
	if _, err := b.desk.Files().Write(ctx, "/home/agent/.ssh/authorized_keys", pub, client.WriteOptions{Mode: 0o600, Parents: true}); err != nil {
		return nil, err
	}
	setup := "chmod 700 /home/agent/.ssh && chown -R agent: /home/agent/.ssh && ssh-keygen -A >/dev/null && systemctl start ssh"
	if res, err := b.desk.Execs().Run(ctx, api.Exec{Shell: setup, User: "root"}); err != nil || res.ExitCode != 0 {
		return nil, fmt.Errorf("start sshd in the guest: %w: %s", err, res.Stderr)
	}
	port, stop, err := b.tunnel(ctx, 22)
	if err != nil {
		return nil, err
	}
	s := &ssh{dir: dir, stop: stop}
	config := fmt.Sprintf("Host guest\n HostName 127.0.0.1\n Port %d\n User agent\n IdentityFile %s/key\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n ControlMaster auto\n ControlPath %s/ctl\n ControlPersist 600\n", port, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s, s.run(ctx, "ssh", "guest", "true")
}

// run runs ssh or scp with our configuration.
func (s *ssh) run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, append([]string{"-F", filepath.Join(s.dir, "config")}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

func (s *ssh) close() {
	_ = exec.Command("ssh", "-F", filepath.Join(s.dir, "config"), "-O", "exit", "guest").Run() //nolint:noctx // clean-up outlives the run
	s.stop()
	_ = os.RemoveAll(s.dir)
}

// tunnel listens on the loopback and carries each connection to a port of the
// guest, until stop.
func (b *bench) tunnel(ctx context.Context, port int) (int, func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			local, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer local.Close()
				remote, err := b.desk.Dial(ctx, port)
				if err != nil {
					return
				}
				defer remote.Close()
				wg.Go(func() { _, _ = io.Copy(remote, local); remote.Close() })
				_, _ = io.Copy(local, remote)
			})
		}
	})
	return l.Addr().(*net.TCPAddr).Port, func() { cancel(); l.Close(); wg.Wait() }, nil
}
