package usage

import (
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// again is the pause before a guest is asked anew that has stopped telling. While
// the link is down the question waits for it.
const again = time.Second

// least is the time for which a state is heard before the next one is: a guest
// that tells too much keeps nobody busy.
const least = 100 * time.Millisecond

// Listen counts the time in which a guest says that it has a page open, until ctx
// ends. Each link asks anew: of the time in between nothing is known, and nothing
// is counted. One that cannot tell is asked no more.
func (b *Book) Listen(ctx context.Context, inc vm.Incarnation, w live.Windows) {
	g, ok := w.(live.Browser)
	for ok && ctx.Err() == nil {
		err := b.listen(ctx, inc, g)
		if errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
			b.log.Info("the guest is too old to say when it browses; that is not counted", "incarnation", inc)
			return
		}
		b.log.Debug("the guest does not say whether it browses", "incarnation", inc, "err", err)
		_ = sleep.For(ctx, again) // the loop looks at ctx
	}
}

// listen asks once.
func (b *Book) listen(ctx context.Context, inc vm.Incarnation, g live.Browser) error {
	closed := func() {}
	defer func() { closed() }()
	return g.Browsing(ctx, func(open bool) {
		closed()
		if open {
			closed = b.Browse(inc)
		}
		_ = sleep.For(ctx, least) // Browsing looks at ctx
	})
}
