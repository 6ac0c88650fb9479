package system_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest"
)

func frozenService(t *testing.T) (*system.Service, *guesttest.Kernel) {
	t.Helper()
	k := &guesttest.Kernel{}
	s := system.New(system.Config{Kernel: k, Generation: t.TempDir() + "/generation", Workspace: t.TempDir()})
	if _, err := s.Mount("/dev/vdb", 0, system.Owner{}); err != nil {
		t.Fatal(err)
	}
	return s, k
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := frozenService(t)
		for range 2 { // the second is the first one again
			f, err := s.Freeze(t.Context(), guest.FreezeParams{ID: "a", For: time.Second})
			if err != nil || f.Device != "/dev/vdb" || !k.State().Frozen || k.State().Freezes != 1 {
				t.Fatalf("%+v, %v, %+v", f, err, k.State())
			}
		}
		if _, err := s.Freeze(t.Context(), guest.FreezeParams{ID: "b", For: time.Second}); !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
			t.Errorf("freeze of another: %v", err)
		}
		if got, err := s.Thaw(t.Context(), guest.ThawParams{ID: "b"}); err != nil || got.Held || !k.State().Frozen {
			t.Errorf("thaw of another: %+v, %v", got, err)
		}
		<-time.After(time.Second - 1)
		if got, err := s.Thaw(t.Context(), guest.ThawParams{ID: "a"}); err != nil || !got.Held || k.State().Frozen {
			t.Errorf("thaw: %+v, %v", got, err)
		}
		if got, err := s.Thaw(t.Context(), guest.ThawParams{ID: "a"}); err != nil || got.Held {
			t.Errorf("thaw again: %+v, %v", got, err)
		}
	})
}

// TestFreezeEndsByItself: nobody comes back to thaw.
func TestFreezeEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := frozenService(t)
		ctx, gone := context.WithCancel(t.Context())
		if _, err := s.Freeze(ctx, guest.FreezeParams{ID: "a", For: time.Second}); err != nil {
			t.Fatal(err)
		}
		gone()
		k.Fail(errors.New("the kernel is busy"))
		<-time.After(time.Second)
		synctest.Wait()
		k.Fail(nil)
		if !k.State().Frozen {
			t.Fatal("thawed although the kernel failed")
		}
		<-time.After(time.Second)
		synctest.Wait()
		if k.State().Frozen {
			t.Fatal("it is frozen for ever")
		}
		if got, err := s.Thaw(t.Context(), guest.ThawParams{ID: "a"}); err != nil || got.Held {
			t.Errorf("a thaw that came late: %+v, %v", got, err)
		}
		// An old deadline does not end a new freeze of the same name.
		if _, err := s.Freeze(t.Context(), guest.FreezeParams{ID: "a", For: guest.MaxFreeze}); err != nil {
			t.Fatal(err)
		}
		<-time.After(guest.MaxFreeze - 1)
		if !k.State().Frozen {
			t.Error("thawed too early")
		}
		s.Melt()
		if k.State().Frozen {
			t.Error("frozen when the daemon has ended")
		}
	})
}

func TestFreezeRefuses(t *testing.T) {
	t.Parallel()
	s, k := frozenService(t)
	for _, p := range []guest.FreezeParams{{For: time.Second}, {ID: "a"}, {ID: "a", For: -1}, {ID: "a", For: guest.MaxFreeze + 1}} {
		if _, err := s.Freeze(t.Context(), p); !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Freeze(ended, guest.FreezeParams{ID: "a", For: time.Second}); !errors.Is(err, context.Canceled) || k.State().Frozen {
		t.Errorf("freeze that nobody waits for: %v, %+v", err, k.State())
	}
	bare := system.New(system.Config{Kernel: &guesttest.Kernel{}, Workspace: t.TempDir()})
	if _, err := bare.Freeze(t.Context(), guest.FreezeParams{ID: "a", For: time.Second}); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		t.Errorf("freeze of nothing: %v", err)
	}
	none := system.New(system.Config{Kernel: struct{ system.Kernel }{k}, Workspace: t.TempDir()})
	if _, err := none.Freeze(t.Context(), guest.FreezeParams{ID: "a", For: time.Second}); !errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) || none.Freezes() {
		t.Errorf("freeze without the ability: %v", err)
	}
}
