package route

import (
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/pkg/api"
)

var _ huma.StatusError = (*api.Error)(nil)

// newProblem is how huma makes errors: what went wrong with a request becomes an
// api.Error, with each fault in a place of its own.
func newProblem(status int, msg string, errs ...error) huma.StatusError {
	for _, err := range errs {
		// The body's own errors know best (too large, stalled, gone).
		if e, ok := errors.AsType[*api.Error](err); ok {
			return e
		}
	}
	e := api.Errorf(codeOfStatus(status), "%s", msg)
	for _, err := range errs {
		if err == nil {
			continue
		}
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			detail := d.ErrorDetail()
			e.Errors = append(e.Errors, api.FieldError{Location: detail.Location, Message: detail.Message})
			continue
		}
		e.Errors = append(e.Errors, api.FieldError{Message: err.Error()})
	}
	return e
}

// codeOfStatus is the code of what huma itself finds.
func codeOfStatus(status int) api.Code {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return api.CodeTooLarge
	case status == http.StatusRequestTimeout:
		return api.CodeDeadline
	case status >= http.StatusInternalServerError:
		return api.CodeInternal
	}
	return api.CodeInvalid
}
