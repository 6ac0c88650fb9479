// Package control decides who may send input, clipboard and window calls to a
// desktop.
//
// A desktop has one control lease. While nobody holds it every agent's call is let
// in; while somebody does, only the holder's are. Each change of holder begins a
// new epoch, which is a number that only grows, over restarts of the host and new
// incarnations of the desktop too, and a call that names an older one is refused.
//
// A change is a hand-over: the calls of the epoch that ends are cancelled, and when
// they have returned everything that is held down is let go. Only then is the
// first call of the new epoch let in, so that nothing of an old holder comes after
// anything of the new one.
//
// Lease is the state and its rules; Desk adds the clock, the calls in flight, the
// audit log and the events.
package control
