package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/api"
)

// maxRest is the longest pause before a call is sent again. A server that asks
// for more is taken at its word: the call fails.
const maxRest = 30 * time.Second

var errRest = errors.New("not worth the wait")

// again says whether a request that failed may fare better.
type again struct {
	may       bool
	untouched bool          // the server has not begun it
	after     time.Duration // what the server asks for; 0: nothing
}

// againAfter reads an answer of an error; ours as fault.Problem says.
func againAfter(resp *http.Response, problem *api.Error, ours bool) again {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return again{may: true, untouched: true, after: retryAfter(resp.Header.Get("Retry-After"))}
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		// What our server refuses for lack of memory stays refused for a while.
		return again{may: !ours || problem.Code == api.CodeGuestUnavail}
	}
	return again{}
}

// retryAfter reads the header of that name: seconds or a date. 0: none.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// rest waits before an attempt is repeated: as long as the server asks for and
// a little more, so that those whom it sent away do not all come back at once.
// The error says that there is to be no other attempt.
func (c *Client) rest(ctx context.Context, attempt int, after time.Duration) error {
	if attempt >= c.retries {
		return errRest
	}
	pause := c.pause << min(attempt, 6)
	if after > 0 && pause > 0 {
		pause = after + rand.N(pause)
	}
	if pause = max(pause, after); pause > maxRest {
		return errRest
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		return errRest
	}
	return sleep.For(ctx, pause)
}
