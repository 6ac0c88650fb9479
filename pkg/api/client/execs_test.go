package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestAttachSurvivesLinks: the output is byte-exact whatever breaks.
func TestAttachSurvivesLinks(t *testing.T) {
	var want bytes.Buffer
	for i := range 5000 {
		fmt.Fprintln(&want, i)
	}
	for _, tc := range []struct {
		name string
		cuts []int
	}{
		{"no cut", nil},
		{"at the first byte", []int{0}},
		{"one byte at a time, then in the middle", []int{1, 1, 1, 1500}},
		{"at frames", []int{1000, 2000, 3000}},
		{"at the last byte", []int{want.Len() - 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := setup(t)
			d := c.Desktop(s.Desktop(api.CreateDesktop{}))
			s.CutLinks(tc.cuts...)
			var out bytes.Buffer
			lost, rejoined := 0, 0
			status, err := d.Execs().Command(t.Context(), api.Exec{Argv: []string{"numbers", "5000"}}, client.Streams{
				Stdout: &out,
				Notify: func(n client.Notice) {
					if n.Lost != nil {
						lost++
					}
					if n.Rejoined {
						rejoined++
					}
				},
			})
			if err != nil || status.ExitCode != 0 {
				t.Fatalf("status %+v, %v", status, err)
			}
			if !bytes.Equal(out.Bytes(), want.Bytes()) {
				t.Errorf("%d bytes came, want %d", out.Len(), want.Len())
			}
			if lost != len(tc.cuts) || rejoined != len(tc.cuts) {
				t.Errorf("lost %d, rejoined %d, want %d", lost, rejoined, len(tc.cuts))
			}
		})
	}
}

func TestAttachSaysWhatIsMissing(t *testing.T) {
	s, c := setup(t)
	id := s.Desktop(api.CreateDesktop{})
	x := c.Desktop(id).Execs()
	started, err := x.Start(t.Context(), api.Exec{Argv: []string{"numbers", "10"}})
	if err != nil {
		t.Fatal(err)
	}
	s.DropOutput(id, started.ID, 4)
	for _, tc := range []struct {
		name string
		from int64
		gap  *client.GapError
	}{
		{"from the start", 0, &client.GapError{Stream: "stdout", From: 0, To: 4}},
		{"from what is kept", client.FromKept, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			_, err := x.Attach(t.Context(), started.ID, client.Streams{Stdout: &out, OutFrom: tc.from, ErrFrom: tc.from})
			var gap *client.GapError
			errors.As(err, &gap)
			if diff := cmp.Diff(tc.gap, gap); diff != "" || out.String() != "2\n3\n4\n5\n6\n7\n8\n9\n" {
				t.Errorf("%s: %q, %v", diff, out.String(), err)
			}
		})
	}
}

func TestAttachInput(t *testing.T) {
	s, c := setup(t)
	id := s.Desktop(api.CreateDesktop{})
	text := strings.Repeat("a line\n", 20000)
	var out bytes.Buffer
	status, err := c.Desktop(id).Execs().Command(t.Context(), api.Exec{ID: "x1", Argv: []string{"cat"}},
		client.Streams{Stdin: strings.NewReader(text), Stdout: &out})
	if err != nil || status.ExitCode != 0 || out.String() != text || s.Input(id, "x1") != text {
		t.Errorf("status %+v, %v; %d bytes of %d back", status, err, out.Len(), len(text))
	}
}

// TestAttachInputSurvivesLinks: the input is byte-exact whatever breaks.
func TestAttachInputSurvivesLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 3<<20)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	random := make([]int, 20)
	for i := range random {
		random[i] = rng.IntN(300 << 10)
	}
	for _, tt := range []struct {
		name        string
		input, both []int
	}{
		{"at the first byte", []int{0}, nil},
		{"one byte at a time, then in the middle", []int{1, 1, 1, 1 << 20}, nil},
		{"at chunks", []int{32 << 10, 64 << 10, 1 << 20}, nil},
		{"anywhere", random, nil},
		{"anywhere, and within the output too", random, random[5:]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := setup(t)
			id := s.Desktop(api.CreateDesktop{})
			s.CutInput(tt.input...)
			s.CutLinks(tt.both...)
			var out bytes.Buffer
			status, err := c.Desktop(id).Execs().Command(t.Context(), api.Exec{ID: "x1", Argv: []string{"cat"}},
				client.Streams{Stdin: bytes.NewReader(text), Stdout: &out})
			if err != nil || status.ExitCode != 0 {
				t.Fatalf("status %+v, %v", status, err)
			}
			if got := s.Input(id, "x1"); got != string(text) || !bytes.Equal(out.Bytes(), text) {
				t.Errorf("%d bytes arrived and %d came back, or not the same; want %d", len(got), out.Len(), len(text))
			}
		})
	}
}

// TestAttachInputOfEnded: a program that has ended before its client attaches,
// or while the link was down, takes no input and still tells all.
func TestAttachInputOfEnded(t *testing.T) {
	for _, cuts := range [][]int{nil, {5}} {
		s, c := setup(t)
		s.CutLinks(cuts...)
		var out strings.Builder
		status, err := c.Desktop(s.Desktop(api.CreateDesktop{})).Execs().Command(t.Context(),
			api.Exec{Argv: []string{"echo", "over", "already"}}, client.Streams{Stdin: strings.NewReader("unheard"), Stdout: &out})
		if err != nil || status.ExitCode != 0 || out.String() != "over already\n" {
			t.Errorf("cuts %v: %+v, %v, %q", cuts, status, err, out.String())
		}
	}
}

func TestAttachErrors(t *testing.T) {
	s, c := setup(t)
	x := c.Desktop(s.Desktop(api.CreateDesktop{})).Execs()
	if _, err := x.Attach(t.Context(), "nope", client.Streams{}); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("unknown exec: %v", err)
	}
	broken := errors.New("disk is full")
	_, err := x.Command(t.Context(), api.Exec{Argv: []string{"numbers", "3"}}, client.Streams{Stdout: badWriter{broken}})
	if !errors.Is(err, broken) {
		t.Errorf("bad writer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	status, err := x.Command(ctx, api.Exec{ID: "w", Argv: []string{"cat"}}, client.Streams{
		Stdin: readerFunc(func([]byte) (int, error) { cancel(); <-ctx.Done(); return 0, io.EOF }),
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("detached: %+v, %v", status, err)
	}
	if still, err := x.Get(t.Context(), "w"); err != nil || !still.Running {
		t.Errorf("after detach: %+v, %v", still, err)
	}
	if err := x.Signal(t.Context(), "w", "TERM"); err != nil {
		t.Error(err)
	}
	if over, err := x.Attach(t.Context(), "w", client.Streams{}); err != nil || over.Signal != "TERM" || over.ExitCode != 143 {
		t.Errorf("after signal: %+v, %v", over, err)
	}
}

type badWriter struct{ err error }

func (w badWriter) Write([]byte) (int, error) { return 0, w.err }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRun(t *testing.T) {
	s, c := setup(t)
	d := c.Desktop(s.Desktop(api.CreateDesktop{}))
	res, err := d.Exec(t.Context(), "fail")
	if err != nil || res.ExitCode != 3 || string(res.Stderr) != "fail: as asked\n" {
		t.Errorf("%+v, %v", res, err)
	}
	res, err = d.Execs().Run(t.Context(), api.Exec{Argv: []string{"cat"}, Input: []byte{0, 255, 10}})
	if err != nil || !bytes.Equal(res.Stdout, []byte{0, 255, 10}) {
		t.Errorf("%+v, %v", res, err)
	}
}
