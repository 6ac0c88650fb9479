//go:build !linux

// Command guesthelper serves an X session to guestd: it exists for Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guesthelper: serves X sessions of Linux guests; this system lacks screen, input, clipboard and windows so far")
	os.Exit(1)
}
