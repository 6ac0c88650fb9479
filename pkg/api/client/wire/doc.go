// Package wire sends the calls of a client to one server: requests, again where that
// is safe, and WebSockets. It knows the headers and errors of the API and none of its
// nouns.
package wire

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"time"
)

// Server is where calls go, and what each of them carries.
type Server struct {
	Base      *url.URL // scheme and host; path without a slash at its end
	HTTP      *http.Client
	TLS       *tls.Config
	Token     string
	UserAgent string
	Holder    string        // of the control lease; empty: the token
	Epoch     uint64        // of the control lease; 0: the present one
	Retries   int           // how often a call that may be repeated is tried again
	Pause     time.Duration // before the first of them
}
