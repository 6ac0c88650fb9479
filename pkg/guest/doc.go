// Package guest is the protocol between the host and guestd, both ends of it:
// what can be asked of a guest, in which words, and how requests, streams and
// events share one WebSocket. The host's end is pkg/guest/client, the guest's
// end internal/guestd.
//
// Two processes answer. guestd runs as root and serves exec, files, clock,
// entropy, power and port dialling. Its helper runs in the X session of the
// desktop's user and serves the screen, input, clipboard and windows; guestd
// passes such requests on, and answers CodeNoDisplay while there is no helper.
package guest
