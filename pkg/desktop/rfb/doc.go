// Package rfb is a client of the RFB protocol 3.8 (RFC 6143 with the extensions
// of the rfbproto community registry), made for QEMU's VNC server: a
// desktop.Source and desktop.Input over any net.Conn.
//
// # Freshness
//
// QEMU looks at the guest's display on a timer only: every 30 ms, backing off
// by 50 ms a tick to 3 s while nothing changes (vnc_refresh). Two facts make a
// proof of freshness cheap. A client message of a type above 3 resets the timer
// to 30 ms after its last tick, so on a quiet display it fires at once; and a
// non-incremental request, however small, is answered at the next tick with
// everything that has changed. So this client asks for one pixel,
// non-incrementally, right behind the release of a key that nobody holds
// (which QEMU drops), never with more than one request open, and takes the
// answer as proof that the whole frame is as the display was after the request
// went out. Frame.At is the time of that request. Of other servers it also asks
// for an incremental update of the whole screen; there the proof is as good as
// the server.
//
// # Frames
//
// Pixels are decoded into one buffer that the newest Frame shares. The buffer
// is copied only when a reader holds it and a pixel really changes, so an
// unchanged screen costs nothing and a Frame never changes.
//
// # Locks
//
// Client.mu guards what readers and the connection share; session.wmu orders
// writes. wmu is never held while mu is taken.
package rfb
