//go:build integration

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The network that elsewhere makes. A guest's own is another one.
const (
	ourSide   = "10.213.77.1/30"
	theirSide = "10.213.77.2"
	theirNet  = "10.213.77.0/30"
)

// elsewhere listens on an address that is not this host's: in a network namespace
// that goes with the listener.
func elsewhere(t *testing.T) net.Listener {
	t.Helper()
	type made struct {
		l   net.Listener
		err error
	}
	tid, ready, done := make(chan int, 1), make(chan struct{}), make(chan made, 1)
	ip := func(args ...string) error {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	}
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and nobody else is there
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		tid <- syscall.Gettid()
		<-ready
		for _, args := range [][]string{{"addr", "add", theirSide + "/30", "dev", "eth0"}, {"link", "set", "eth0", "up"}} {
			if err == nil {
				err = ip(args...)
			}
		}
		var l net.Listener
		if err == nil {
			l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", theirSide+":0")
		}
		done <- made{l, err}
	}()
	there := fmt.Sprint(<-tid)
	ours := "dfe" + there
	err := ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", there)
	for _, args := range [][]string{{"addr", "add", ourSide, "dev", ours}, {"link", "set", ours, "up"}} {
		if err == nil {
			err = ip(args...)
		}
	}
	close(ready)
	m := <-done
	if err != nil || m.err != nil {
		t.Fatal(err, m.err)
	}
	t.Cleanup(func() {
		if err := ip("link", "del", ours); err != nil {
			t.Error(err)
		}
	})
	return m.l
}

// answering serves on a listener until the end of the test.
func answering(t *testing.T, l net.Listener, h http.Handler) (base string) {
	t.Helper()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// providerKeys are what a host may have in its environment for its own use.
var providerKeys = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY",
	"OPENROUTER_API_KEY", "GROQ_API_KEY", "XAI_API_KEY",
}

// TestGatewayOfARun: a command that is given a gateway and a token for it reaches that
// one with it. No key of the host's environment is in the guest, and neither they nor
// the token stay in the host's files, its log among them.
func TestGatewayOfARun(t *testing.T) {
	alone(t)
	token, key := canary(), canary()
	var mu sync.Mutex
	var heard []string
	base := answering(t, elsewhere(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		fmt.Fprint(w, "an answer\n")
	}))
	for _, name := range providerKeys { // the daemon is started anew with them
		if err := os.Setenv(name, key); err != nil { //nolint:usetesting // it runs in parallel, though nothing is beside it
			t.Fatal(err)
		}
		defer func() {
			if err := os.Unsetenv(name); err != nil {
				t.Error(err)
			}
		}()
	}
	serveWith(t, "--egress-allow", theirNet)
	out := begin(t, newWorkspace(), `curl -sS -d '{}' -H "Authorization: Bearer $HOSTED_INFERENCE_TOKEN" "$HOSTED_INFERENCE_URL/v1/messages"
sudo sh -c 'cat /proc/[0-9]*/environ' | tr '\0' '\n'`,
		"--env", "HOSTED_INFERENCE_URL="+base, "--env", "HOSTED_INFERENCE_TOKEN="+token).ends(t, 0)
	first, rest, _ := strings.Cut(out, "\n")
	if first != "an answer" || !strings.Contains(rest, "\nHOSTED_INFERENCE_TOKEN="+token+"\n") {
		t.Errorf("the command says %q", out)
	}
	if strings.Contains(rest, key) {
		t.Errorf("a key of the host is in the guest: %q", rest)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "POST /v1/messages Bearer " + token; len(heard) != 1 || heard[0] != want {
		t.Errorf("the gateway heard %q, want %q", heard, want)
	}
	if places := found(t, filesBelow(t, host.Data), append(traces(token), traces(key)...)); len(places) > 0 {
		t.Errorf("in the host's files: %q", places)
	}
}
