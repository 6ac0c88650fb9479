package session

import "time"

// Outcome is how a run ended.
type Outcome string

// Outcomes.
const (
	Completed Outcome = "completed"
	Conflict  Outcome = "conflict"
	LeaseLost Outcome = "lease_lost"
	Failed    Outcome = "failed"
)

// Result is the end of a run.
type Result struct {
	Outcome Outcome
	// Revision is the last one published by this run, 0 when there is none.
	Revision int64
	// RetryAfter says when a conflict may be over, 0 when that is not known.
	RetryAfter time.Duration
	// Cause is why a run failed or lost its lease: every error of the run,
	// joined.
	Cause error
	// Warnings are errors that changed nothing: of releases, of a runtime
	// checkpoint that could not be used; the first hundred, joined.
	Warnings error
}
