// Package rfbserver is the server's side of the RFB protocol 3.8 (RFC 6143 with the
// extensions of the rfbproto community registry): it shows a desktop.Source to one
// client, and hands on what that types and points at. Whoever calls it has admitted
// the client: its only security type is None.
//
// # Pace
//
// A client gets the newest frame when it asks for one, or, with continuous updates,
// as soon as it has confirmed the last but one (by fences). Frames in between are
// never queued: what is kept for a client is the last frame that it was sent, whose
// pixels its source shares among all. One that reads slowly sees fewer frames and
// delays nobody.
package rfbserver
