package event_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/event"
)

func collect(t *testing.T, s *event.Subscription, n int) []string {
	t.Helper()
	var types []string
	for range n {
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	return types
}

func TestReplayAndFilter(t *testing.T) {
	l := event.New(8, 100, time.Now)
	l.Publish("p", "a", "d1", nil)
	l.Publish("q", "b", "d2", nil)
	l.Publish("p", "c", "d2", nil)
	tests := []struct {
		name   string
		filter event.Filter
		after  uint64
		want   []string
	}{
		{"all", event.Filter{}, 99, []string{"a", "b", "c"}},
		{"after one", event.Filter{}, 100, []string{"b", "c"}},
		{"a project", event.Filter{Project: "p"}, 99, []string{"a", "c"}},
		{"a desktop", event.Filter{Desktop: "d2"}, 99, []string{"b", "c"}},
		{"both", event.Filter{Project: "q", Desktop: "d2"}, 99, []string{"b"}},
		{"a number of an earlier life", event.Filter{}, 5, []string{event.TypeLost, "a", "b", "c"}},
		{"a number of a later life", event.Filter{}, 500, []string{event.TypeLost}},
		{"from the start", event.Filter{}, 0, []string{"a", "b", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := collect(t, l.Subscribe(tt.filter, tt.after), len(tt.want))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if l.Last() != 102 {
		t.Errorf("last is %d", l.Last())
	}
}

func TestSlowSubscriberIsCutOff(t *testing.T) {
	l := event.New(4, 1, time.Now)
	s := l.Subscribe(event.Filter{}, 0)
	l.Publish("p", "first", "", nil)
	if got := collect(t, s, 1); got[0] != "first" {
		t.Fatal(got)
	}
	for range 5 {
		l.Publish("p", "more", "", nil) // never waits for the subscriber
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, event.ErrLost) {
		t.Errorf("a subscriber that fell behind got %v", err)
	}
	again := l.Subscribe(event.Filter{}, 1)
	if got := collect(t, again, 2); got[0] != event.TypeLost || got[1] != "more" {
		t.Errorf("coming back it got %v", got)
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := event.New(4, 1, time.Now)
		s := l.Subscribe(event.Filter{Project: "p"}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(time.Minute, func() { l.Publish("other", "x", "", nil) })
		time.AfterFunc(2*time.Minute, func() { l.Publish("p", "y", "", nil) })
		start := time.Now()
		e, err := s.Next(ctx)
		if err != nil || e.Type != "y" || time.Since(start) != 2*time.Minute {
			t.Errorf("%+v after %s, %v", e, time.Since(start), err)
		}
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the end of the context answers %v", err)
		}
	})
}
