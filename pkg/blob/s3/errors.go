package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/deskfork/deskfork/pkg/blob"
)

// sourceError is a body that could not be read, which no repeat mends.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read what is to be stored: " + e.err.Error() }

// Unwrap gives the cause.
func (e *sourceError) Unwrap() error { return e.err }

// fault gives an error the form of the contract.
func fault(op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &blob.Error{Op: op, Key: key, Err: err}
	var r minio.ErrorResponse
	var source *sourceError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &r):
		classify(e, r)
	case errors.As(err, &source), errors.As(err, &unknown), errors.As(err, &host),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default: // of the network
		e.Retry = true
	}
	return e
}

// classes are what codes and statuses mean; the first that fits counts. Codes
// come before statuses, because servers do not agree on these.
var classes = []struct {
	codes  []string
	status int
	is     error // nil: only not to be repeated
	retry  bool
}{
	{codes: []string{"NoSuchBucket", "NoSuchUpload", "NotImplemented"}},
	{codes: []string{"NoSuchKey", "NotFound", "ObjectParentIsFile", "ExistingObjectIsDirectory"}, status: http.StatusNotFound, is: blob.ErrNotFound},
	{codes: []string{"PreconditionFailed"}, status: http.StatusPreconditionFailed, is: blob.ErrExists},
	{codes: []string{"InvalidRange"}, status: http.StatusRequestedRangeNotSatisfiable, is: blob.ErrRange},
	{codes: []string{"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"}, status: http.StatusInsufficientStorage, is: blob.ErrFull},
	{codes: []string{"RequestTimeTooSkewed"}, is: errClock},
	{status: http.StatusNotImplemented},
	{codes: []string{"SlowDown", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "Throttling", "IncompleteBody"}, status: http.StatusTooManyRequests, retry: true},
	{status: http.StatusRequestTimeout, retry: true},
}

// errClock is for an operator: requests are signed with the time.
var errClock = errors.New("the clock of this host is wrong")

func classify(e *blob.Error, r minio.ErrorResponse) {
	e.Retry = r.StatusCode >= http.StatusInternalServerError || r.StatusCode == 0
	for _, c := range classes {
		if !slices.Contains(c.codes, r.Code) && (c.status == 0 || c.status != r.StatusCode) {
			continue
		}
		if e.Retry = c.retry; c.is != nil {
			e.Err = fmt.Errorf("%w: %w", c.is, e.Err)
		}
		return
	}
}

// unsupported: the server does not know what it was asked for.
func unsupported(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && (r.Code == "NotImplemented" || r.StatusCode == http.StatusNotImplemented)
}
