package api

import (
	"fmt"
	"net/http"
)

// Code is a stable error code. The same list serves HTTP, WebSocket, the exit
// status of the CLI and other doors.
type Code string

// Codes.
const (
	CodeInvalid       Code = "invalid"           // the request is malformed or out of range
	CodeUnauthorized  Code = "unauthorized"      // no token, or an unknown one
	CodeForbidden     Code = "forbidden"         // the token lacks the scope or project
	CodeNotFound      Code = "not_found"         // no such desktop, image, exec, file, window
	CodeConflict      Code = "conflict"          // the name or key is taken
	CodeControlHeld   Code = "control_held"      // somebody else holds the control lease
	CodePrecondition  Code = "precondition"      // the state does not allow it
	CodeStale         Code = "stale_generation"  // a newer generation of the fence was seen; see Generation
	CodeNoCapacity    Code = "no_capacity"       // would not fit into memory or disk
	CodeNoSpace       Code = "no_space"          // a disk is full, here or in the guest
	CodeTooLarge      Code = "too_large"         // the body is over its limit
	CodeUnsupported   Code = "unsupported"       // this desktop, guest or host cannot do it
	CodeNoDisplay     Code = "no_display"        // the guest has no X session now
	CodeImageCorrupt  Code = "image_corrupt"     // an image's files do not match its digest
	CodeMachineFailed Code = "machine_failed"    // the hypervisor did not start or ended
	CodeGuestFailed   Code = "guest_failed"      // the guest did not come up; see Stage
	CodeGuestUnavail  Code = "guest_unavailable" // guestd does not answer now
	CodeDeadline      Code = "deadline"          // not done in time
	CodeCancelled     Code = "cancelled"         // the caller went away
	CodePermission    Code = "permission"        // the guest's file permissions say no
	CodeRefused       Code = "refused"           // a dialled port answered no
	CodeRateLimited   Code = "rate_limited"      // too many requests at once
	CodeInternal      Code = "internal"          // a fault of ours
)

// class is what a code means on each door.
type class struct {
	status    int // HTTP
	exit      int // of the CLI
	retryable bool
}

// classes is the one table from code to status.
func classes() map[Code]class {
	return map[Code]class{
		CodeInvalid:       {http.StatusUnprocessableEntity, 2, false},
		CodeUnauthorized:  {http.StatusUnauthorized, 3, false},
		CodeForbidden:     {http.StatusForbidden, 3, false},
		CodeNotFound:      {http.StatusNotFound, 4, false},
		CodeConflict:      {http.StatusConflict, 5, false},
		CodeControlHeld:   {http.StatusConflict, 5, true},
		CodePrecondition:  {http.StatusConflict, 5, false},
		CodeStale:         {http.StatusConflict, 5, false},
		CodeNoCapacity:    {http.StatusServiceUnavailable, 6, true},
		CodeNoSpace:       {http.StatusInsufficientStorage, 6, false},
		CodeTooLarge:      {http.StatusRequestEntityTooLarge, 2, false},
		CodeUnsupported:   {http.StatusNotImplemented, 7, false},
		CodeNoDisplay:     {http.StatusConflict, 7, true},
		CodeImageCorrupt:  {http.StatusInternalServerError, 8, false},
		CodeMachineFailed: {http.StatusBadGateway, 8, false},
		CodeGuestFailed:   {http.StatusBadGateway, 8, false},
		CodeGuestUnavail:  {http.StatusBadGateway, 9, true},
		CodeDeadline:      {http.StatusGatewayTimeout, 10, true},
		CodeCancelled:     {499, 11, true},
		CodePermission:    {http.StatusForbidden, 3, false},
		CodeRefused:       {http.StatusBadGateway, 9, true},
		CodeRateLimited:   {http.StatusTooManyRequests, 6, true},
		CodeInternal:      {http.StatusInternalServerError, 1, false},
	}
}

// Codes lists every code, in no order.
func Codes() []Code {
	table := classes()
	all := make([]Code, 0, len(table))
	for c := range table {
		all = append(all, c)
	}
	return all
}

// HTTPStatus is the status a code is sent with; 500 for an unknown one.
func (c Code) HTTPStatus() int {
	if k, ok := classes()[c]; ok {
		return k.status
	}
	return http.StatusInternalServerError
}

// ExitStatus is the exit status of a CLI that ends with this code; 1 for an
// unknown one.
func (c Code) ExitStatus() int {
	if k, ok := classes()[c]; ok {
		return k.exit
	}
	return 1
}

// Retryable says whether the same call may succeed later.
func (c Code) Retryable() bool { return classes()[c].retryable }

// Error is an application/problem+json body (RFC 9457) and a Go error.
type Error struct {
	Type      string       `json:"type,omitempty"` // about:blank when absent
	Title     string       `json:"title"`          // the HTTP status in words
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`           // what happened
	Code      Code         `json:"code"`             // stable, to branch on
	Retryable bool         `json:"retryable"`        // the same call may succeed later
	Stage     string       `json:"stage,omitempty"`  // which step failed, e.g. boot stages or "upload"
	Hint      string       `json:"hint,omitempty"`   // what to do
	Log       string       `json:"log,omitempty"`    // tail of the hypervisor's stderr or the serial console
	Errors    []FieldError `json:"errors,omitempty"` // faults of single members

	// Generation is the newest one, of stale_generation.
	Generation int64 `json:"generation,omitempty"`
	// Control says who holds the control lease, of control_held.
	Control *Control `json:"control,omitempty"`
	// Nested says the same in the words of drivers of managed runtimes, on their
	// routes alone.
	Nested *NestedError `json:"error,omitempty"`
}

// NestedError is an error as drivers of managed runtimes read it.
type NestedError struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// AsNested is an error in the words of drivers.
func (e *Error) AsNested() *NestedError {
	return &NestedError{Code: e.Code, Message: e.Error(), Retryable: e.Retryable}
}

// FieldError is one fault in a request.
type FieldError struct {
	Location string `json:"location"` // e.g. body.display.width
	Message  string `json:"message"`
}

func (e *Error) Error() string {
	s := e.Detail
	if e.Stage != "" {
		s = e.Stage + ": " + s
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Is matches by code: errors.Is(err, &api.Error{Code: api.CodeNotFound}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf makes an error of a code; status, title and retryable follow from it.
func Errorf(code Code, format string, args ...any) *Error {
	status := code.HTTPStatus()
	return &Error{
		Title: http.StatusText(status), Status: status, Code: code,
		Retryable: code.Retryable(), Detail: fmt.Sprintf(format, args...),
	}
}
