package guest

// Code classifies an error of the protocol; it survives the wire.
type Code string

// Codes.
const (
	CodeInvalid     Code = "invalid"
	CodeNotFound    Code = "not_found"
	CodeExists      Code = "exists"
	CodePermission  Code = "permission"
	CodeNoSpace     Code = "no_space"
	CodeNotDir      Code = "not_dir"
	CodeIsDir       Code = "is_dir"
	CodeNotEmpty    Code = "not_empty"
	CodeNoDisplay   Code = "no_display"
	CodeUnsupported Code = "unsupported"
	CodeBusy        Code = "busy"
	CodeDeadline    Code = "deadline"
	CodeCancelled   Code = "cancelled"
	CodeGone        Code = "gone"
	CodeRefused     Code = "refused" // a dialled port answered no
	CodeInternal    Code = "internal"
)

// Error is an error that the other end reported.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, &Error{Code: c}) match by code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}
