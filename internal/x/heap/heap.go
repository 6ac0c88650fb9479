// Package heap lets a small daemon collect garbage seldom.
//
// A collection touches all that lives. Inside a guest that costs what a clone is
// there to save: on an emulated processor whose translations are gone it takes a
// quarter of a second in the middle of the first answer.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Calm puts off collections until the heap has floor bytes, as long as less lives
// in it; a heap that holds more than half of floor is collected when it has
// doubled, as ever. It is called once.
func Calm(floor int64) {
	debug.SetGCPercent(percent(floor, 0))
	watch(floor)
}

// sentinel is garbage from its birth on: its finalizer tells of a collection.
type sentinel struct{ _ [16]byte }

func watch(floor int64) {
	runtime.SetFinalizer(new(sentinel), func(*sentinel) {
		debug.SetGCPercent(percent(floor, live()))
		watch(floor)
	})
}

// live is what the last collection has left, in bytes; not what has come since,
// which a busy machine makes much before anybody looks.
func live() int64 {
	left := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(left)
	return int64(left[0].Value.Uint64())
}

// percent is by how much a heap may grow of which so much lives.
func percent(floor, live int64) int {
	const (
		usual = 100
		least = 4 << 20 // the runtime's own smallest heap at 100 %
	)
	return int(max(usual, 100*floor/max(live, least)-100))
}
