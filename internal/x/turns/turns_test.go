package turns_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/x/turns"
)

func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns.Turns
		var wg sync.WaitGroup
		inside, done := 0, 0
		for range 10 {
			wg.Go(func() {
				leave, err := all.Enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				if inside++; inside != 1 {
					t.Errorf("%d have the turn", inside)
				}
				<-time.After(time.Second)
				inside--
				done++
			})
		}
		synctest.Wait()
		other, err := all.Enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := all.Try("b"); ok {
			t.Error("two have the turn")
		}
		other()
		if again, ok := all.Try("b"); !ok {
			t.Error("a turn that is over is not free")
		} else {
			again()
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := all.Enter(ctx, "a"); !errors.Is(err, gone) {
			t.Errorf("whoever has left: %v", err)
		}
		wg.Wait()
		if done != 10 {
			t.Errorf("%d of 10 had a turn", done)
		}
	})
}
