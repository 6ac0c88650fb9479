package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
)

const canary = "canary-7f3a"

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := session.SecretOf(canary)
	fence := session.Fence{Tenure: session.Tenure{Owner: "o", Generation: 1}, Token: secret}
	hidden := struct{ f session.Fence }{fence}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		args := []any{fence}
		if strings.HasPrefix(verb, "%T") {
			args = append(args, fence)
		}
		fmt.Fprintf(&out, verb, args...)
	}
	fmt.Fprintf(&out, "%v %+v %#v %s", secret, &secret, []session.Secret{secret}, map[string]session.Secret{"k": secret})
	fmt.Fprintf(&out, "%v %+v %#v %s", hidden, hidden, hidden, fmt.Errorf("x %v: %w", fence, errors.New("y")))
	for _, v := range []any{fence, secret, &secret, map[string]any{"s": secret}, session.Process{Command: "c", Env: map[string]session.Secret{"A": secret}}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "fence", fence, "token", secret, "hidden", hidden, slog.Group("g", "t", secret))
	}
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), fmt.Sprintf("%x", canary)) {
		t.Fatalf("the secret was printed: %s", out.String())
	}
	if secret.Reveal() != canary || !secret.Equal(session.SecretOf(canary)) || secret.Equal(session.Secret{}) {
		t.Fatal("a secret must keep its text")
	}
	if got := secret.Redact("a " + canary); got != "a [redacted]" {
		t.Fatalf("redact: %q", got)
	}
}

func TestDraftHasOneSpelling(t *testing.T) {
	t.Parallel()
	d := session.Draft{
		Workspace: session.Candidate{ID: "w", ContentHash: "sha256:1", Revision: 3, Metadata: session.Metadata{"b": 1, "a": "<&>", "z": nil, "big": int64(1) << 60}},
		Output:    &session.Candidate{ID: "o", ContentHash: "sha256:2"},
		Retained:  &session.Lease{Provider: "p", RuntimeID: "r"},
	}
	text, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	back, err := session.ParseDraft(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Canonical()
	if err != nil || again != text {
		t.Fatalf("read back and written: %v\n%s\n%s", err, text, again)
	}
}

func TestDamagedDraftIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "null": "null", "no candidate": "{}", "no hash": `{"workspaceCandidate":{"id":"w"},"outputCandidate":null}`,
		"nested metadata":     `{"workspaceCandidate":{"id":"w","contentHash":"h","metadata":{"a":{}}},"outputCandidate":null}`,
		"negative revision":   `{"workspaceCandidate":{"id":"w","contentHash":"h","revision":-1},"outputCandidate":null}`,
		"unknown member":      `{"workspaceCandidate":{"id":"w","contentHash":"h"},"outputCandidate":null,"x":1}`,
		"trailing":            `{"workspaceCandidate":{"id":"w","contentHash":"h"},"outputCandidate":null}{}`,
		"bad checkpoint":      `{"workspaceCandidate":{"id":"w","contentHash":"h"},"outputCandidate":null,"runtimeCheckpoint":{"provider":"p"}}`,
		"lease without id":    `{"workspaceCandidate":{"id":"w","contentHash":"h"},"outputCandidate":null,"retainedRuntime":{"provider":"p"}}`,
		"output without id":   `{"workspaceCandidate":{"id":"w","contentHash":"h"},"outputCandidate":{"contentHash":"h"}}`,
		"truncated":           `{"workspaceCandidate":{"id":"w","cont`,
		"number for a string": `{"workspaceCandidate":{"id":1,"contentHash":"h"},"outputCandidate":null}`,
	} {
		if d, err := session.ParseDraft(text); err == nil {
			t.Errorf("%s: read as %+v", name, d)
		}
	}
}

func FuzzParseDraft(f *testing.F) {
	f.Add(`{"workspaceCandidate":{"id":"w","contentHash":"h","metadata":{"a":1.50,"b":[]}},"outputCandidate":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := session.ParseDraft(text)
		if err != nil {
			return
		}
		once, err := d.Canonical()
		if err != nil {
			t.Fatalf("a draft that was read cannot be written: %v", err)
		}
		back, err := session.ParseDraft(once)
		if err != nil {
			t.Fatalf("a draft that was written cannot be read: %v", err)
		}
		if twice, err := back.Canonical(); err != nil || twice != once {
			t.Fatalf("two spellings: %s and %s, %v", once, twice, err)
		}
	})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	a := session.Scope{Workspace: "a", Environment: `b","c`, Session: "d", Work: "w"}
	b := session.Scope{Workspace: "a", Environment: "b", Session: `c","d`, Work: "w"}
	if a.Key() == b.Key() {
		t.Fatal("two sessions share a key")
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "a\x00", "\xff", strings.Repeat("x", session.MaxIDBytes+1)} {
		s := a
		s.Work = bad
		if s.Validate() == nil {
			t.Errorf("%q is no work id", bad)
		}
	}
	if got := (session.Tenure{Scope: a, Generation: 3}).Key(session.StageSynchronize.Of("periodic-2")); got != "w:3:session-inputs-synchronize-periodic-2" {
		t.Fatalf("key %q", got)
	}
}

func TestOrphanText(t *testing.T) {
	t.Parallel()
	tenure := session.Tenure{Scope: session.Scope{Workspace: "w", Environment: "e", Session: "s", Work: "k"}, Owner: "o", Generation: 1}
	lease := session.Lease{Provider: "p", RuntimeID: "r"}
	o := session.NewOrphan(tenure, lease, session.ReasonFailed, errors.New(strings.Repeat("ü", 4000)+"\x00\xff"))
	if len(o.LastError) > session.MaxErrorBytes || strings.Contains(o.LastError, "\x00") || !utf8.ValidString(o.LastError) {
		t.Fatalf("text of %d bytes", len(o.LastError))
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	other := session.NewOrphan(tenure, session.Lease{Provider: "p", RuntimeID: "r2"}, session.ReasonFailed, nil)
	if o.ID == other.ID {
		t.Fatal("two incarnations, one id")
	}
}

func TestReusable(t *testing.T) {
	t.Parallel()
	d := session.Driver{Lane: session.Supervised, Process: session.Process{Command: "c", Env: map[string]session.Secret{"A": session.SecretOf("1")}}, HarnessID: "h", Version: "2"}
	tenure := session.Tenure{Scope: session.Scope{Session: "s"}, Generation: 2}
	good := session.RuntimeCheckpoint{Provider: "p", CheckpointID: "c", Kind: session.CheckpointProcess, SourceRuntimeID: "r", SessionID: "s", WorkGeneration: 1, HarnessVersion: "2", RuntimeIdentity: d.RuntimeIdentity()}
	changed := d
	changed.Process.Env = map[string]session.Secret{"A": session.SecretOf("other value")}
	if !good.Reusable(session.CheckpointProcess, tenure, changed) {
		t.Fatal("values of the environment are no part of the identity")
	}
	if strings.Contains(d.RuntimeIdentity(), "redacted") || !strings.Contains(d.RuntimeIdentity(), `"A"`) {
		t.Fatalf("identity %s", d.RuntimeIdentity())
	}
	for name, change := range map[string]func(*session.RuntimeCheckpoint){
		"kind":       func(c *session.RuntimeCheckpoint) { c.Kind = session.CheckpointFilesystem },
		"session":    func(c *session.RuntimeCheckpoint) { c.SessionID = "x" },
		"generation": func(c *session.RuntimeCheckpoint) { c.WorkGeneration = 2 },
		"zero":       func(c *session.RuntimeCheckpoint) { c.WorkGeneration = 0 },
		"version":    func(c *session.RuntimeCheckpoint) { c.HarnessVersion = "1" },
		"identity":   func(c *session.RuntimeCheckpoint) { c.RuntimeIdentity = "" },
		"provider":   func(c *session.RuntimeCheckpoint) { c.Provider = "" },
		"checkpoint": func(c *session.RuntimeCheckpoint) { c.CheckpointID = "" },
		"source":     func(c *session.RuntimeCheckpoint) { c.SourceRuntimeID = "" },
		"revision":   func(c *session.RuntimeCheckpoint) { c.WorkspaceRevision = -1 },
	} {
		bad := good
		change(&bad)
		if bad.Reusable(session.CheckpointProcess, tenure, d) {
			t.Errorf("%s: reused %s", name, cmp.Diff(good, bad))
		}
	}
}
