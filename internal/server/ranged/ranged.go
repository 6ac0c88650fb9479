// Package ranged reads the headers with which a client asks for a part of a file,
// or for a file only if it has changed (RFC 9110, sections 13 and 14).
package ranged

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

// Span is a part of a file, in bytes.
type Span struct{ From, Len int64 }

// Parse reads a Range header of one range for a file of a size. A header of
// several, one that makes no sense, or one that an If-Range makes void, is
// ignored, as the RFC allows: then partial is false. A range that is not within
// the file is an error with status 416.
func Parse(r *http.Request, tag string, size int64) (part Span, partial bool, err error) {
	all := Span{0, size}
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if v := r.Header.Get("If-Range"); !ok || size == 0 || (v != "" && v != tag) {
		return all, false, nil
	}
	from, to, ok := bounds(strings.TrimSpace(text), size)
	if !ok {
		return all, false, nil
	}
	if from >= size || to < from {
		e := api.Errorf(api.CodeInvalid, "range %q is not within %d bytes", text, size)
		e.Status, e.Title = http.StatusRequestedRangeNotSatisfiable, http.StatusText(http.StatusRequestedRangeNotSatisfiable)
		return all, false, e
	}
	return Span{from, to - from + 1}, true, nil
}

// bounds are the first and last byte of "FROM-TO", "FROM-" or "-LAST".
func bounds(text string, size int64) (from, to int64, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, false
	}
	if first == "" {
		n, ok := number(last)
		if n == 0 {
			return size, size, ok
		}
		return max(size-n, 0), size - 1, ok
	}
	from, ok = number(first)
	if last == "" || !ok {
		return from, size - 1, ok
	}
	to, ok = number(last)
	return from, min(to, size-1), ok
}

// number reads digits alone: no sign, no list.
func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && s[0] != '+'
}

// Matches says whether an If-None-Match header names a tag.
func Matches(header, tag string) bool {
	if header == "*" {
		return true
	}
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t != "" && t == tag {
			return true
		}
	}
	return false
}
