//go:build race

package vmnet_test

const raceEnabled = true
