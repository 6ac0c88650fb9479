package stream

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"syscall"
)

// Writer writes an answer whose headers go out with its first byte, so that an
// error before it can still be told.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begin   func(http.Header) int
	begun   bool
	flush   bool
}

// NewWriter prepares an answer. begin sets the headers and answers the status;
// flush sends each part at once.
func NewWriter(w http.ResponseWriter, flush bool, begin func(http.Header) int) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), begin: begin, flush: flush}
}

// Attachment prepares the answer of a file that is to be saved under a name, and by
// nobody on the way.
func Attachment(w http.ResponseWriter, media, name string) *Writer {
	return NewWriter(w, false, func(h http.Header) int {
		h.Set("Content-Type", media)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
		h.Set("Cache-Control", "no-store")
		return http.StatusOK
	})
}

// Begin sends the headers unless they are sent.
func (w *Writer) Begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	w.w.WriteHeader(w.begin(w.w.Header()))
	if w.flush {
		return gone(w.control.Flush())
	}
	return nil
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.Begin(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(p)
	if err == nil && w.flush {
		err = w.control.Flush()
	}
	return n, gone(err)
}

// gone calls the errors of a connection that its client has left by their name,
// so that nobody takes them for a fault of ours.
func gone(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the client went away: %w", context.Canceled)
	}
	return err
}
