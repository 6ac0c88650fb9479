package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Reason says why a machine or a fence is let go.
type Reason string

// Reasons.
const (
	ReasonCompleted Reason = "completed"
	ReasonFailed    Reason = "failed"
	ReasonLeaseLost Reason = "lease_lost"
)

// Lease names an allocated machine. It can be stored and read back by another
// host; it holds no secret.
type Lease struct {
	Provider string `json:"provider"`
	// RuntimeID is the id of one incarnation: a resume makes a new one, and none
	// is used twice. So an old orphan can never end a resumed machine.
	RuntimeID string   `json:"runtimeId"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

// Validate refuses a lease without provider or id.
func (l Lease) Validate() error {
	if l.Provider == "" || l.RuntimeID == "" {
		return fmt.Errorf("lease of provider %q and runtime %q: both must be set", l.Provider, l.RuntimeID)
	}
	return l.Metadata.Validate()
}

// Same says whether both name one incarnation.
func (l Lease) Same(other Lease) bool {
	return l.Provider == other.Provider && l.RuntimeID == other.RuntimeID
}

// Intent is written before a machine is allocated and stays until the machine is
// gone or is somebody else's to reap. A retained machine's intent stays as long as
// the machine does.
type Intent struct {
	// ID is also the name that the provider must allocate under.
	ID     string
	Tenure Tenure
	// Lease is nil until the machine is there.
	Lease *Lease
	// Age is how long ago it was written, by the clock of the store.
	Age time.Duration
}

// NewIntent is the intent of a tenure to allocate its machine.
func NewIntent(t Tenure) Intent { return Intent{ID: intentID(t), Tenure: t} }

func intentID(t Tenure) string {
	s := t.Scope
	return keyOf(s.Workspace, s.Environment, s.Session, s.Work, strconv.FormatInt(t.Generation, 10))
}

// MaxErrorBytes bounds the error text that an orphan keeps.
const MaxErrorBytes = 4096

// Orphan is a machine that could not be ended. It carries no token.
type Orphan struct {
	ID       string
	Tenure   Tenure
	Lease    Lease
	Reason   Reason
	Attempts int
	// LastError is for people.
	LastError string
	// Age is how long ago it was enqueued, by the clock of the store.
	Age time.Duration
}

// NewOrphan describes a machine to be reaped. The id depends on scope, generation
// and incarnation alone, so that enqueueing twice is harmless.
func NewOrphan(t Tenure, l Lease, reason Reason, cause error) Orphan {
	s := t.Scope
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	return Orphan{
		ID: keyOf(s.Workspace, s.Environment, s.Session, s.Work,
			strconv.FormatInt(t.Generation, 10), l.Provider, l.RuntimeID),
		Tenure: t, Lease: l, Reason: reason, LastError: ErrorText(text),
	}
}

// ErrorText cuts a text to what an orphan keeps, at a rune, without NUL.
func ErrorText(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "�")
	for len(text) > MaxErrorBytes {
		_, n := utf8.DecodeLastRuneInString(text[:MaxErrorBytes+1])
		text = text[:MaxErrorBytes+1-n]
	}
	return text
}

// Validate joins every fault.
func (o Orphan) Validate() error {
	err := errors.Join(o.Tenure.Validate(), o.Lease.Validate())
	switch o.Reason {
	case ReasonCompleted, ReasonFailed, ReasonLeaseLost:
	default:
		err = errors.Join(err, fmt.Errorf("reason %q is none of completed, failed, lease_lost", o.Reason))
	}
	if o.Attempts < 0 {
		err = errors.Join(err, fmt.Errorf("attempts are %d", o.Attempts))
	}
	return err
}
