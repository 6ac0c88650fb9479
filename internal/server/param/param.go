// Package param reads the query parameters of the calls that stream, which no
// schema validates, and gathers every fault.
package param

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Query reads the query of a stream and gathers every fault.
type Query struct {
	values url.Values
	faults []api.FieldError
}

// Of reads the query of a request.
func Of(r *http.Request) *Query { return &Query{values: r.URL.Query()} }

// Bad notes a fault of one parameter.
func (q *Query) Bad(name, message string) {
	q.faults = append(q.faults, api.FieldError{Location: "query." + name, Message: message})
}

// Err is what was wrong with all that was read; nil when nothing was.
func (q *Query) Err() error {
	if len(q.faults) == 0 {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = q.faults
	return e
}

// Text is a parameter as it came; empty when absent.
func (q *Query) Text(name string) string { return q.values.Get(name) }

// Required is Text that must not be empty.
func (q *Query) Required(name string) string {
	v := q.Text(name)
	if v == "" {
		q.Bad(name, "required")
	}
	return v
}

var nameRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

// Name reads the name of something that is to be made.
func (q *Query) Name(name string) string {
	v := q.Text(name)
	if !nameRE().MatchString(v) {
		q.Bad(name, "want 1 to 63 of a-z, 0-9 and -, with no - at either end")
	}
	return v
}

// One reads one of the values, the first of which is the default.
func (q *Query) One(name string, values ...string) string {
	v := cmp.Or(q.Text(name), values[0])
	if slices.Contains(values, v) {
		return v
	}
	q.Bad(name, "want one of "+strings.Join(values, ", "))
	return values[0]
}

// Bool reads true or false; false when absent.
func (q *Query) Bool(name string) bool {
	v := q.Text(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		q.Bad(name, "want true or false")
	}
	return b
}

// Int64 reads an integer; def when absent.
func (q *Query) Int64(name string, def int64) int64 {
	v := q.Text(name)
	if v == "" {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		q.Bad(name, "want an integer")
	}
	return n
}

// Between is Int64 within bounds; 0 when absent.
func (q *Query) Between(name string, low, high int64) int {
	if q.Text(name) == "" {
		return 0
	}
	n := q.Int64(name, 0)
	if n < low || n > high {
		q.Bad(name, "want "+strconv.FormatInt(low, 10)+" to "+strconv.FormatInt(high, 10))
		return int(low)
	}
	return int(n)
}

// Mode reads permission bits in octal; 0 when absent.
func (q *Query) Mode(name string) uint32 {
	v := q.Text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o7777 {
		q.Bad(name, "want permission bits in octal, e.g. 0644")
	}
	return uint32(n)
}

// maxWait is the longest wait of a call.
const maxWait = time.Hour

// Wait reads the query timeout, a duration such as 90s; empty: def.
func Wait(text string, def time.Duration) (time.Duration, error) {
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxWait {
		e := api.Errorf(api.CodeInvalid, "validation failed")
		e.Errors = []api.FieldError{{Location: "query.timeout", Message: "want a duration such as 90s, above 0 and at most " + maxWait.String()}}
		return 0, e
	}
	return d, nil
}
