//go:build integration

package e2e_test

import (
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
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	}
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and nobody else is there
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		tid <- syscall.Gettid()
		<-ready
		for _, args := range [][]string{{"addr", "add", theirSide + "/30", "dev", "dfe1"}, {"link", "set", "dfe1", "up"}} {
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
	err := ip("link", "add", "dfe0", "type", "veth", "peer", "name", "dfe1", "netns", fmt.Sprint(<-tid))
	for _, args := range [][]string{{"addr", "add", ourSide, "dev", "dfe0"}, {"link", "set", "dfe0", "up"}} {
		if err == nil {
			err = ip(args...)
		}
	}
	close(ready)
	m := <-done
	if err != nil || m.err != nil {
		t.Fatal(err, m.err)
	}
	t.Cleanup(func() { _ = ip("link", "del", "dfe0") })
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
		defer os.Unsetenv(name)
	}
	serveWith(t, "--egress-allow", theirNet)
	out := begin(t, newWorkspace(), `curl -sS -d '{}' -H "Authorization: Bearer $HOSTED_INFERENCE_TOKEN" "$HOSTED_INFERENCE_URL/v1/messages"
sudo sh -c 'cat /proc/[0-9]*/environ' | tr '\0' '\n' | cut -d= -f1 | sort -u`,
		"--env", "HOSTED_INFERENCE_URL="+base, "--env", "HOSTED_INFERENCE_TOKEN="+token).ends(t, 0)
	first, names, _ := strings.Cut(out, "\n")
	if first != "an answer" || !strings.Contains(names, "\nHOSTED_INFERENCE_TOKEN\n") {
		t.Errorf("the command says %q", out)
	}
	for _, name := range providerKeys {
		if strings.Contains("\n"+names, "\n"+name+"\n") {
			t.Errorf("%s is in the guest", name)
		}
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
