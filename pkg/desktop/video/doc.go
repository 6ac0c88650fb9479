// Package video encodes frames of a screen for people: VP9 tuned for screens and
// VP8 through libvpx, and tiles of JPEG for who can decode neither. Each encoder
// touches only the pixels that it is told have changed.
//
// libvpx is linked statically where there is cgo; without cgo there are tiles
// alone.
package video
