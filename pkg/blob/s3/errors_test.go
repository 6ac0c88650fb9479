package s3_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/url"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/s3"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	answer := func(code string, status int) error { return minio.ErrorResponse{Code: code, StatusCode: status} }
	none := errors.New("none of them")
	for name, c := range map[string]struct {
		err   error
		is    error
		retry bool
	}{
		"no key":              {answer("NoSuchKey", 404), blob.ErrNotFound, false},
		"head of no key":      {answer("", 404), blob.ErrNotFound, false},
		"no bucket":           {answer("NoSuchBucket", 404), none, false},
		"taken":               {answer("PreconditionFailed", 412), blob.ErrExists, false},
		"taken at this time":  {answer("ConditionalRequestConflict", 409), none, true},
		"range":               {answer("InvalidRange", 416), blob.ErrRange, false},
		"full":                {answer("XMinioStorageFull", 507), blob.ErrFull, false},
		"quota":               {answer("QuotaExceeded", 403), blob.ErrFull, false},
		"slow down":           {answer("SlowDown", 503), none, true},
		"too many":            {answer("", 429), none, true},
		"gateway":             {answer("", 502), none, true},
		"internal, status ok": {answer("InternalError", 0), none, true},
		"not implemented":     {answer("", 501), none, false},
		"denied":              {answer("AccessDenied", 403), none, false},
		"signature":           {answer("SignatureDoesNotMatch", 403), none, false},
		"clock":               {answer("RequestTimeTooSkewed", 403), none, false},
		"reset":               {&url.Error{Op: "Get", URL: "x", Err: syscall.ECONNRESET}, syscall.ECONNRESET, true},
		"cut":                 {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, true},
		"strange certificate": {&url.Error{Op: "Get", URL: "x", Err: x509.UnknownAuthorityError{}}, none, false},
		"cancelled":           {&url.Error{Op: "Get", URL: "x", Err: context.Canceled}, context.Canceled, false},
	} {
		err := s3.Fault(c.err)
		if blob.Retryable(err) != c.retry {
			t.Errorf("%s: %v is to be repeated: %v", name, err, !c.retry)
		}
		for _, is := range []error{blob.ErrNotFound, blob.ErrExists, blob.ErrRange, blob.ErrFull} {
			if errors.Is(err, is) != errors.Is(c.is, is) {
				t.Errorf("%s: %v is %v: %v", name, err, is, !errors.Is(c.is, is))
			}
		}
		if !errors.Is(c.is, none) && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %v", name, err, c.is)
		}
	}
	if s3.Fault(nil) != nil {
		t.Error("no error became one")
	}
}
