//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

//go:embed testdata/tls.py
var tlsPy string

// clockLimit is how far a clone's clock may be from the host's.
const clockLimit = 50 * time.Millisecond

// TestForkIdentity: what must be another one in each of a family is, at once,
// and what must be the same is.
func TestForkIdentity(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	s := scene{dir: d.folder(t), execs: map[string]api.ExecStatus{}}
	d.put(t, s.script(), scenePy)
	s.start(t, d, "generations")
	// One process that has read of its random state before it is forked.
	const numbers = `import os, sys, uuid
os.urandom(16)
print("up", flush=True)
for line in sys.stdin: print(os.urandom(16).hex(), open("/proc/sys/kernel/random/uuid").read().strip(), uuid.uuid4(), flush=True)`
	drawn, err := d.Execs().Start(t.Context(), api.Exec{Argv: []string{"python3", "-c", numbers}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	s.output(t, d, "generations", "watching\n")
	hostname := d.sh(t, "hostname; cat /etc/machine-id; ip -o link show | md5sum")
	kids := d.forks(t, api.Fork{Count: 3})
	family := append([]desk{d}, kids...)
	seen := map[string]string{}
	unique := func(what, who, got string) {
		if other, dup := seen[what+got]; dup || got == "" {
			t.Errorf("%s of %s and %s is %q", what, who, other, got)
		}
		seen[what+got] = who
	}
	for _, k := range family {
		who := k.Info.ID
		// The clock first: nothing has set it since the clone was handed out.
		k.clock(t, who)
		k.trusts(t, s.dir, who)
		if got := k.sh(t, "hostname; cat /etc/machine-id; ip -o link show | md5sum"); got != hostname {
			t.Errorf("%s is %q, its parent %q", who, got, hostname)
		}
		generation := strings.TrimSpace(k.get(t, guest.GenerationPath))
		unique("generation", who, generation)
		told := "watching\n"
		if k.Info.Parent != "" {
			told += generation + "\n"
		}
		s.output(t, k, "generations", told)
		for i, word := range strings.Fields(k.asked(t, drawn.ID)) {
			unique(fmt.Sprintf("random number %d", i), who, word)
		}
		unique("uuid", who, k.sh(t, "cat /proc/sys/kernel/random/uuid"))
		unique("python's", who, k.sh(t, "python3 -c 'import os; print(os.urandom(16).hex())'"))
	}
	foreign(t, family)
}

// output demands all that a part of the scene has said.
func (s *scene) output(t *testing.T, d desk, part, want string) {
	t.Helper()
	d.until(t, time.Minute, part, func(ctx context.Context) error {
		actx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var out syncBuffer
		_, err := d.Execs().Attach(actx, s.execs[part].ID, client.Streams{Stdout: &out, OutFrom: client.FromKept})
		if got := out.String(); got != want {
			return fmt.Errorf("it said %q, want %q, %w", got, want, err)
		}
		return nil
	})
}

// asked writes a line to an exec and reads the last one that it answers.
func (d desk) asked(t *testing.T, id string) string {
	t.Helper()
	var out syncBuffer
	_, err := d.Execs().Attach(t.Context(), id, client.Streams{Stdin: strings.NewReader("once\n"), Stdout: &out, OutFrom: client.FromKept})
	if err != nil {
		t.Fatalf("ask %s: %v", id, err)
	}
	said := strings.Split(strings.TrimSpace(out.String()), "\n")
	return said[len(said)-1]
}

// clock demands that the guest's clock is the host's. Of some looks the quickest
// counts: a slow one proves nothing.
func (d desk) clock(t *testing.T, who string) {
	t.Helper()
	var last string
	for range 10 {
		before := time.Now()
		var seconds float64
		if err := json.Unmarshal([]byte(d.sh(t, "date +%s.%N")), &seconds); err != nil {
			t.Fatal(err)
		}
		after, at := time.Now(), time.Unix(0, int64(seconds*1e9))
		early, late := before.Sub(at), at.Sub(after)
		if early <= clockLimit && late <= clockLimit {
			return
		}
		last = fmt.Sprintf("%s before or %s after a look of %s", early, late, after.Sub(before))
	}
	t.Errorf("%s: the clock is off: %s", who, last)
}

// trusts lets the guest verify a certificate that is valid from now on.
func (d desk) trusts(t *testing.T, dir, who string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tmpl := x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now, NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	d.put(t, dir+"/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	d.put(t, dir+"/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	d.put(t, dir+"/tls.py", tlsPy)
	res := d.shell(t, fmt.Sprintf("python3 %s/tls.py %[1]s/cert.pem %[1]s/key.pem", dir))
	if string(res.Stdout) != "hello\n" {
		t.Errorf("%s does not take a certificate that is valid now: %s%s", who, res.Stdout, res.Stderr)
	}
}

// foreign tries each guest's token, as its machine has it, at each guest of a family: it opens its own and no other.
func foreign(t *testing.T, family []desk) {
	t.Helper()
	tokens := make([]string, len(family))
	for i, k := range family {
		var config guest.Config
		res, err := k.Execs().Run(t.Context(), api.Exec{User: "root", Argv: []string{"cat", guest.ConfigPath}})
		if err == nil {
			err = json.Unmarshal(res.Stdout, &config)
		}
		if err != nil || config.Token == "" {
			t.Fatalf("token of %s: %v", k.Info.ID, err)
		}
		tokens[i] = config.Token
	}
	if all := slices.Compact(slices.Sorted(slices.Values(tokens))); len(all) != len(tokens) {
		t.Errorf("%d tokens for %d guests", len(all), len(tokens))
	}
	for i, k := range family {
		for j, token := range tokens {
			err := k.hello(t.Context(), token)
			if i == j && err != nil {
				t.Errorf("%s does not take its own token: %v", k.Info.ID, err)
			}
			if i != j && !errors.Is(err, mux.ErrUnauthorized) {
				t.Errorf("%s and the token of %s: %v", k.Info.ID, family[j].Info.ID, err)
			}
		}
	}
}

// hello opens a link to guestd under a token.
func (d desk) hello(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	link, err := mux.Dial(ctx, func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, guest.Port) }, token, mux.Timing{})
	if err == nil {
		link.Close(mux.ErrPeerGone)
	}
	return err
}

// TestSSHKeysOfForks: a fork of a desktop whose ssh runs has host keys of its own.
func TestSSHKeysOfForks(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	if got := d.sh(t, "ls /etc/ssh/*_key* 2>/dev/null || true"); got != "" {
		t.Errorf("before ssh was started there are %s", got)
	}
	d.asRoot(t, "systemctl start ssh")
	mine := d.offered(t, "")
	kid := d.fork(t, api.Fork{})
	if its := kid.offered(t, mine); its == mine {
		t.Errorf("the child's key is the parent's: %s", its)
	}
	if now := d.offered(t, ""); now != mine {
		t.Errorf("the parent's key was %s, is %s", mine, now)
	}
}

// offered waits until ssh offers a host key that is not another one.
func (d desk) offered(t *testing.T, other string) string {
	t.Helper()
	var key string
	d.until(t, 3*time.Minute, "a host key", func(ctx context.Context) error {
		res, err := d.Execs().Run(ctx, api.Exec{Shell: "ssh-keyscan -T 30 -t ed25519 127.0.0.1"})
		if key = strings.TrimSpace(string(res.Stdout)); err == nil && (key == "" || key == other) {
			err = fmt.Errorf("ssh-keyscan says %q, %s", key, res.Stderr)
		}
		return err
	})
	return key
}

// TestBrowserRandomnessOfForks: a page that was open before a fork draws other
// UUIDs in each of the family.
func TestBrowserRandomnessOfForks(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	page := d.folder(t) + "/page.html"
	d.put(t, page, `<title>uuid none</title><body>a page<script>
crypto.randomUUID(); addEventListener("keydown", () => { document.title = "uuid " + crypto.randomUUID() })</script>`)
	if _, err := d.Launch(t.Context(), api.Launch{URL: "file://" + page}); err != nil {
		t.Fatal(err)
	}
	title := func(k desk, match func(string) bool) api.Window {
		return k.window(t, "of the page", func(w api.Window) bool { return strings.HasPrefix(w.Title, "uuid ") && match(w.Title) })
	}
	w := title(d, func(string) bool { return true })
	d.focus(t, w)
	seen := map[string]string{}
	for _, k := range append([]desk{d}, d.forks(t, api.Fork{Count: 2})...) {
		last := w.Title
		for range 3 {
			if err := k.Key(t.Context(), "space"); err != nil {
				t.Fatal(err)
			}
			last = title(k, func(now string) bool { return now != last }).Title
			if other, dup := seen[last]; dup {
				t.Errorf("%s and %s drew %s", k.Info.ID, other, last)
			}
			seen[last] = k.Info.ID
		}
	}
	var list bytes.Buffer
	for uuid, who := range seen {
		fmt.Fprintf(&list, "\n%s %s", who, uuid)
	}
	t.Logf("drawn:%s", list.String())
}
