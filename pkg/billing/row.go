package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxWindow is the longest time that one row may cover.
const MaxWindow = 24 * time.Hour

// Bounds of a page of Pull and List.
const (
	DefaultLimit = 500
	MaxLimit     = 5000
)

// ErrInvalid says that a row, a query or an amount makes no sense.
var ErrInvalid = errors.New("invalid")

// Owner says whom use belongs to. Empty members are not known.
type Owner struct {
	Project string `json:"project"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Desktop string `json:"desktop,omitempty"`
}

// Key is what a row is unique on.
type Key struct {
	Incarnation string
	Kind        Kind
	Start       int64 // of the window, nanoseconds since 1970 UTC
}

// Row is use of one kind by one incarnation in one window.
type Row struct {
	// ID is given by the ledger: positive, growing in the order in which rows can
	// be seen, never used again.
	ID int64
	// Incarnation is the run of a machine, or the session, that used it.
	Incarnation string
	Kind        Kind
	// Start and End are the window: half open, UTC, at most MaxWindow, and never
	// over a UTC midnight. They count the host's boot-time clock from one reading
	// of the wall clock, so that no jump of that changes a length.
	Start, End time.Time
	// Value is positive, in the unit that the kind's name says.
	Value int64
	Owner Owner
	// Recorded is when the ledger took it, by the ledger's clock.
	Recorded time.Time
	// Acked is when it was billed; zero before.
	Acked time.Time
}

// Key of the row.
func (r Row) Key() Key {
	return Key{Incarnation: r.Incarnation, Kind: r.Kind, Start: r.Start.UnixNano()}
}

// Validate joins all that is wrong with a row that is about to be written.
func (r Row) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w row: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	check(r.Incarnation != "", "no incarnation")
	check(r.Kind.Valid(), "unknown kind %q", r.Kind)
	check(r.Value > 0, "value %d is not positive", r.Value)
	check(r.Owner.Project != "", "no project")
	check(r.End.After(r.Start), "window ends at %s, not after its start %s", r.End, r.Start)
	check(r.End.Sub(r.Start) <= MaxWindow, "window of %s is longer than %s", r.End.Sub(r.Start), MaxWindow)
	return errors.Join(errs...)
}

// Mark is how far the counting of one incarnation has come, in the words of who
// counts. It is written together with the rows that it has given rise to.
type Mark struct {
	Host        string // who counts it
	Incarnation string
	Version     int64 // grows with each change; an older one never replaces a newer
	Body        []byte
}

// Batch is what one step of counting changes: all of it or nothing.
type Batch struct {
	Marks []Mark
	Ended []string // incarnations that need no mark any more
	Rows  []Row    // ID, Recorded and Acked are ignored
}

// Query selects rows. Empty members select all.
type Query struct {
	Project string
	Session string
	// From and To select rows whose window starts in [From, To).
	From, To time.Time
	// Since selects rows with a greater ID.
	Since int64
	// Limit is the size of a page, 1 to MaxLimit. Zero: DefaultLimit.
	Limit int
}

// Page is the effective limit, or an error when it is out of bounds.
func (q Query) Page() (int, error) {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return 0, fmt.Errorf("%w limit %d: want 1 to %d", ErrInvalid, q.Limit, MaxLimit)
	}
	return cmp.Or(q.Limit, DefaultLimit), nil
}

// Ledger keeps rows and marks. Its methods may be called from any goroutine, and
// honour ctx. billingtest.Run is what every ledger passes.
type Ledger interface {
	// Commit writes a batch in one transaction and answers how many rows are new.
	// A row whose Key is there already is left as it is; an invalid one fails the
	// batch. To repeat a batch after an error that says nothing of its fate is
	// safe.
	Commit(ctx context.Context, b Batch) (added int, err error)
	// Marks are those of a host, by incarnation.
	Marks(ctx context.Context, host string) ([]Mark, error)
	// Pull lists rows that are not acked, in the order of their IDs. Whoever asks
	// since the last ID it saw misses none.
	Pull(ctx context.Context, q Query) ([]Row, error)
	// List is Pull with the acked ones.
	List(ctx context.Context, q Query) ([]Row, error)
	// Ack marks rows of a project (empty: any) as billed and answers how many were
	// not before. IDs that are not there are ignored.
	Ack(ctx context.Context, project string, ids []int64) (acked int, err error)
}
