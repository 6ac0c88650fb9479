package undo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/x/undo"
)

func TestRunGoesBackwardsPastErrorsAndCancellation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errMiddle := errors.New("middle")
	var got []string
	var s undo.Stack
	s.Push("a", func(context.Context) error { got = append(got, "a"); return nil })
	s.Push("b", func(context.Context) error { got = append(got, "b"); return errMiddle })
	s.Push("c", func(ctx context.Context) error { got = append(got, "c"); return ctx.Err() })
	err := s.Run(ctx, time.Minute)
	if !errors.Is(err, errMiddle) || errors.Is(err, context.Canceled) {
		t.Fatalf("Run = %v, want only the error of b", err)
	}
	if d := cmp.Diff([]string{"c", "b", "a"}, got); d != "" {
		t.Fatalf("order (-want +got):\n%s", d)
	}
	if err := s.Run(ctx, time.Minute); err != nil || len(got) != 3 {
		t.Fatalf("second Run = %v after %v, want nothing to do", err, got)
	}
}

func TestReleaseForgets(t *testing.T) {
	t.Parallel()
	var s undo.Stack
	s.Push("x", func(context.Context) error { return errors.New("ran") })
	s.Release()
	if err := s.Run(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}
