package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/host/recording"
)

// recordFlags say how much of what is recorded is kept.
type recordFlags struct {
	age  time.Duration
	size string
}

func (f *recordFlags) add(fl *pflag.FlagSet) {
	fl.DurationVar(&f.age, "recordings-age", 7*24*time.Hour, "how long recordings are kept")
	fl.StringVar(&f.size, "recordings-size", "10GiB", "how `large` all of them may be; the oldest go first")
}

// parse reads the flags.
func (f recordFlags) parse() (recording.Limits, error) {
	if f.age <= 0 {
		return recording.Limits{}, fmt.Errorf("--recordings-age: %s is no time that something could be kept", f.age)
	}
	mib, err := parse.MiB(f.size)
	if err != nil {
		return recording.Limits{}, fmt.Errorf("--recordings-size: %w", err)
	}
	return recording.Limits{Age: f.age, Bytes: mib << 20}, nil
}
