package tape_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/tape"
	"github.com/deskfork/deskfork/pkg/api"
)

// collect reads to the end.
func collect(ctx context.Context, r *tape.Reader) (out []byte, lost int, err error) {
	for {
		e, more, err := r.Next(ctx)
		if err != nil || !more {
			return out, lost, err
		}
		switch e.Type {
		case api.RunStdout:
			out = append(out, e.Data...)
		case api.RunLost:
			lost++
		case api.RunStderr, api.RunStep, api.RunEnd:
		}
	}
}

// TestReaderIsWaitedFor: more than the tape holds comes through whole, and in order.
func TestReaderIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tp := tape.New(time.Now)
		r := tp.Read(0)
		defer r.Close()
		want := make([]byte, 3*tape.Size+17)
		for i := range want {
			want[i] = byte(i / 251)
		}
		go func() {
			if n, err := tp.Output(t.Context(), api.RunStdout).Write(want); err != nil || n != len(want) {
				t.Errorf("wrote %d, %v", n, err)
			}
			tp.Add(api.RunEvent{Type: api.RunEnd})
			tp.Add(api.RunEvent{Type: api.RunStep}) // too late
		}()
		got, lost, err := collect(t.Context(), r)
		if err != nil || lost != 0 || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d, %d times lost, %v", len(got), len(want), lost, err)
		}
	})
}

// TestNobodyReads: the writer goes on, and who comes later is told what is missing.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tp := tape.New(time.Now)
		tp.Add(api.RunEvent{Type: api.RunStep, Step: "first"})
		if _, err := tp.Output(t.Context(), api.RunStdout).Write(make([]byte, 2*tape.Size)); err != nil {
			t.Fatal(err)
		}
		tp.Add(api.RunEvent{Type: api.RunEnd})
		r := tp.Read(0)
		defer r.Close()
		got, lost, err := collect(t.Context(), r)
		if err != nil || lost != 1 || len(got) < tape.Size*9/10 || len(got) > tape.Size {
			t.Errorf("%d bytes, %d times lost, %v", len(got), lost, err)
		}
	})
}

// TestReaderThatStandsStill is given up after a while, and comes back where it was.
func TestReaderThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tp := tape.New(time.Now)
		r := tp.Read(0)
		began := time.Now()
		if _, err := tp.Output(t.Context(), api.RunStdout).Write(make([]byte, tape.Size+1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != tape.Patience {
			t.Errorf("it was waited for %s", took)
		}
		if _, _, err := r.Next(t.Context()); !errors.Is(err, &api.Error{Code: api.CodeRateLimited}) {
			t.Errorf("it is told %v", err)
		}
		r.Close()
		back := tp.Read(2)
		defer back.Close()
		if e, more, err := back.Next(t.Context()); err != nil || !more || e.Seq != 3 {
			t.Errorf("behind the second comes %d, %v", e.Seq, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		end := tp.Read(1 << 40)
		defer end.Close()
		if _, _, err := end.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("from the future: %v", err)
		}
	})
}
