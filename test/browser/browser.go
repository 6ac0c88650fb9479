// Package browser runs scripts that drive Debian's Chromium, for tests and measurements
// of what people see in one. A script is JavaScript beside who uses it; it begins with
// require(process.env.DRIVER), which launch.js describes.
package browser

import (
	"context"
	"testing"
	"time"
)

// Script is one that runs in a test.
type Script struct {
	tb   testing.TB
	p    *Process
	done bool
}

// Start runs a script with one argument, sent as JSON, until the test ends or limit
// has passed.
func Start(tb testing.TB, script string, arg any, limit time.Duration) *Script {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s := &Script{tb: tb}
	var err error
	if s.p, err = Run(ctx, script, arg); err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		if !s.done {
			_ = s.p.Wait(nil) // the test has failed already
		}
	})
	return s
}

// Next waits for the next thing that the script says, and reads it into v. It fails
// the test when the script has ended.
func (s *Script) Next(v any) {
	s.tb.Helper()
	if err := s.p.Next(v); err != nil {
		s.tb.Fatal(err)
	}
}

// Say tells the script something.
func (s *Script) Say(v any) {
	s.tb.Helper()
	if err := s.p.Say(v); err != nil {
		s.tb.Fatal(err)
	}
}

// Wait fails the test unless the script ends well.
func (s *Script) Wait() {
	s.tb.Helper()
	s.done = true
	if err := s.p.Wait(func(line string) { s.tb.Logf("the script says %s", line) }); err != nil {
		s.tb.Fatalf("the script: %v", err)
	}
}
