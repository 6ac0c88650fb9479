// Package duplex joins the WebSocket of a client to a process of a guest: numbered
// bytes, each stream with a credit of its own, so that one which nobody reads holds no
// other up, and nothing is let go of before the other end has confirmed it.
package duplex
