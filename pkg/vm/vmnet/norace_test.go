//go:build !race

package vmnet_test

const raceEnabled = false
