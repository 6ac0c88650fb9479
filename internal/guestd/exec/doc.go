// Package exec runs programs in the guest and keeps them apart from the
// connections that watch them.
//
// An exec belongs to its Table. Its output goes into one ring a stream.
// Attached clients read from the rings; while there is one, the program waits
// for the slowest, and bytes stay in the ring until a client has acknowledged
// reading them, so that a client whose link broke can go on at its offset.
// With nobody attached the ring drops its oldest bytes.
//
// An exec has ended when its main process has ended and its output is over.
// Where a background child keeps the output open, it is over after a short
// quiet time; what the child writes later is read and thrown away, so that the
// child lives on.
package exec
