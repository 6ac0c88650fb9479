package fault

import (
	"net/http"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Again says whether a request that failed may fare better.
type Again struct {
	May       bool
	Untouched bool          // the server has not begun it
	After     time.Duration // what the server asks for; 0: nothing
}

// After reads an answer of an error; ours as Problem says.
func After(resp *http.Response, problem *api.Error, ours bool) Again {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return Again{May: true, Untouched: true, After: retryAfter(resp.Header.Get("Retry-After"))}
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		// What our server refuses for lack of memory stays refused for a while.
		return Again{May: !ours || problem.Code == api.CodeGuestUnavail}
	}
	return Again{}
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
