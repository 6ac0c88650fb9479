//go:build integration && linux

package vmnet_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Environment of the processes that TestKernelEgress makes of itself.
const (
	roleKey   = "VMNET_TEST_ROLE"
	worldAddr = "203.0.113.1"
	hostAddr  = "203.0.113.2"
	lanAddr   = "10.77.0.1"
)

// TestKernelEgress uses the real policy over the real kernel: this test binary
// runs once as "host" in one network namespace and once as "world" in another.
// It needs root.
func TestKernelEgress(t *testing.T) {
	switch os.Getenv(roleKey) {
	case "world":
		worldServes(t)
		return
	case "host":
		hostTries(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces need root")
	}
	id := fmt.Sprintf("vmnet%d", os.Getpid())
	host, world := id+"h", id+"w"
	for _, cmd := range []string{
		"netns add " + host, "netns add " + world,
		"-n " + host + " link add out type veth peer name in netns " + world,
		"-n " + host + " addr add " + hostAddr + "/24 dev out", "-n " + host + " addr add 10.77.0.2/24 dev out",
		"-n " + host + " link set out up", "-n " + host + " link set lo up",
		// A prefix that is local without being on an interface.
		"-n " + host + " route add local 198.51.100.0/24 dev lo",
		"-n " + world + " addr add " + worldAddr + "/24 dev in", "-n " + world + " addr add " + lanAddr + "/24 dev in",
		"-n " + world + " link set in up", "-n " + world + " link set lo up",
	} {
		out, err := exec.Command("ip", strings.Fields(cmd)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %s: %v: %s", cmd, err, out)
		}
		if name, ok := strings.CutPrefix(cmd, "netns add "); ok {
			t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
		}
	}
	self := func(ns, role string) *exec.Cmd {
		c := exec.Command("ip", "netns", "exec", ns, os.Args[0], "-test.run=^TestKernelEgress$", "-test.v")
		c.Env = append(os.Environ(), roleKey+"="+role)
		return c
	}
	server := self(world, "world")
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = server.Wait()
	}()
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "ready"; {
		t.Log(lines.Text())
	}
	out, err := self(host, "host").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// worldServes answers on port 80 of every address, until its input ends.
func worldServes(t *testing.T) {
	t.Helper()
	serveEverywhere(t)
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func serveEverywhere(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, echo)
	pc, err := net.ListenPacket("udp4", ":80")
	if err != nil {
		t.Fatal(err)
	}
	echoPackets(t, pc)
}

// hostTries is a host with services of its own and a guest that looks around.
func hostTries(t *testing.T) {
	t.Helper()
	serveEverywhere(t)
	w := newWire(t)
	open(t, w, nil)
	g := boot(t, w, 1500)
	c, err := g.dial(within(t, time.Minute), "tcp", worldAddr+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, "over the real kernel")
	ask(t, g.dialUDP(worldAddr+":80"), "datagram")
	refusedTCP(t, g, worldAddr+":81")
	for _, to := range []string{hostAddr, "10.77.0.2", lanAddr, "198.51.100.7", "203.0.113.255", "203.0.113.0", vm.GatewayIP} {
		t.Run(to, func(t *testing.T) {
			refusedTCP(t, g, to+":80")
			refusedUDP(t, g, to+":80")
		})
	}
	t.Run("an address added later", func(t *testing.T) {
		const later = "203.0.113.99"
		refusedTCP(t, g, later+":80") // nobody's: the world does not answer for it
		if out, err := exec.Command("ip", "addr", "add", later+"/24", "dev", "out").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		refusedTCP(t, g, later+":80")
		refusedUDP(t, g, later+":80")
	})
}
