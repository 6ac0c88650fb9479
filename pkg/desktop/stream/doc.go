// Package stream turns the frames of one screen into encoded pictures for any
// number of viewers: one encode for each codec and quality level that somebody
// watches, none when nobody does.
//
// Pictures are made when something has changed, up to 30 a second; 300 ms after
// the last change what is still coarse becomes sharp, bit by bit; a still screen
// sends one small picture a second. There are no periodic keys but for recordings.
// A viewer that does not read fast enough loses pictures of its own, never those
// of others.
package stream
