package pages

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel does the work 0 to n-1 on as many goroutines as run at once; each
// calls worker for a function of its own. It returns when all have ended, after
// the first error or the end of ctx.
func parallel(ctx context.Context, n int, worker func() func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			work := worker()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := work(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
