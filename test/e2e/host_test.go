//go:build integration

package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestStages: readiness came in named stages, in order.
func TestStages(t *testing.T) {
	d := lend(t)
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range info.Stages {
		got = append(got, string(s.Stage))
	}
	if want := "admission machine link handshake session drawn"; strings.Join(got, " ") != want {
		t.Errorf("stages %v, want %s", got, want)
	}
	if info.State != api.StateReady || info.Accelerator == "" {
		t.Errorf("desktop = %+v", info)
	}
	t.Logf("stages: %+v", info.Stages)
}

// TestHandshake: the guest's clock is the host's, and its user is set up.
func TestHandshake(t *testing.T) {
	d := lend(t)
	before := time.Now()
	var seconds float64
	if err := json.Unmarshal([]byte(d.sh(t, "date +%s.%N")), &seconds); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, int64(seconds*1e9))
	if at.Before(before.Add(-2*time.Second)) || at.After(time.Now().Add(2*time.Second)) {
		t.Errorf("the guest's clock says %s, ours %s", at, before)
	}
	if got := d.sh(t, "cat /run/deskfork/generation"); strings.TrimSpace(got) == "" {
		t.Error("no generation file")
	}
}

// TestAcceleratorIsProven: the host says which one runs and why, and doctor
// says how to mend what is missing.
func TestAcceleratorIsProven(t *testing.T) {
	beside(t)
	info, err := host.Client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Accelerator != "kvm" && info.Accelerator != "tcg" || info.AcceleratorReason == "" {
		t.Errorf("info = %+v", info)
	}
	doctor, err := host.Client.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range doctor.Checks {
		names = append(names, c.Name)
		if !c.OK && (c.Fix == "" || c.Cost == "") {
			t.Errorf("check %s does not say what it costs and how to mend it: %+v", c.Name, c)
		}
	}
	if !strings.Contains(strings.Join(names, " "), "accelerator") {
		t.Errorf("checks: %v", names)
	}
}

func TestEvents(t *testing.T) {
	d := lend(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last uint64
	for event, err := range host.Client.Events(ctx, client.EventOptions{Desktop: d.Info.Name, After: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Seq <= last {
			t.Errorf("event %d after %d", event.Seq, last)
		}
		last = event.Seq
		if event.Type == "desktop.ready" {
			return
		}
	}
	t.Error("desktop.ready was not among the events")
}

func TestLogs(t *testing.T) {
	d := lend(t)
	r, err := d.Logs(t.Context(), client.LogOptions{Source: "serial", Tail: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var head [4096]byte
	if n, err := r.Read(head[:]); n == 0 {
		t.Errorf("the serial log is empty: %v", err)
	}
}

// TestCommands runs the CLI's short verbs.
func TestCommands(t *testing.T) {
	name := lend(t).Info.Name
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  string
		status int
		want   string
	}{
		{name: "ls", args: []string{"ls"}, want: name},
		{name: "ls by label", args: []string{"ls", "-q", "--filter", "label=suite=other"}, want: ""},
		{name: "inspect", args: []string{"inspect", name}, want: `"accelerator"`},
		{name: "exec", args: []string{"exec", name, "--", "sh", "-c", "echo hi; exit 5"}, status: 5, want: "hi"},
		{name: "exec with input", args: []string{"exec", "-i", name, "--", "cat"}, stdin: "through", want: "through"},
		{name: "unknown desktop", args: []string{"exec", "nobody", "--", "true"}, status: 4},
		{name: "image ls", args: []string{"image", "ls"}, want: "debian-xfce"},
		{name: "doctor", args: []string{"doctor"}, want: "accelerator"},
		{name: "windows", args: []string{"windows", name, "--json"}, want: `"dock"`},
		{name: "logs", args: []string{"logs", name}, want: ""},
		{name: "move", args: []string{"move", name, "5", "5"}},
		{name: "bad flag", args: []string{"ls", "--nonsense"}, status: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, status := cli(t, tt.stdin, tt.args...)
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("status %d, want %d; output %q, want %q in it", status, tt.status, out, tt.want)
			}
		})
	}
	out, status := cli(t, "", "screenshot", name, "-o", "-")
	if status != 0 || !strings.HasPrefix(out, "\x89PNG") {
		t.Errorf("screenshot to standard output: %d, %.20q", status, out)
	}
}

// TestLaunchEnvironment: a launched program has the desktop's environment, and
// its own wins.
func TestLaunchEnvironment(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	_, err := d.Launch(t.Context(), api.Launch{
		Argv: []string{"sh", "-c", "echo $DESKFORK_E2E/$OWN/$DISPLAY > " + dir + "/env.tmp; mv " + dir + "/env.tmp " + dir + "/env"},
		Env:  map[string]string{"OWN": "mine"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.until(t, time.Minute, "the program's word", func(ctx context.Context) error {
		b, err := d.Files().Read(ctx, dir+"/env")
		if err != nil {
			return err
		}
		if got := string(b); got != "from create/mine/:0\n" {
			t.Errorf("environment %q", got)
		}
		return nil
	})
	_, err = d.Launch(t.Context(), api.Launch{Argv: []string{"no-such-program"}})
	code(t, err, api.CodeNotFound)
}
