// Package relay joins the WebSockets of clients to what they attach to: the
// programs and the ports of a guest.
package relay
