package app

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/sim/workload"
)

// duration is a flag's duration, in days as well.
type duration time.Duration

// durationVar registers a flag with a duration.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, fallback time.Duration, usage string) {
	*to = fallback
	f.Var((*duration)(to), name, usage)
}

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := workload.ParseDuration(text)
	*d = duration(parsed)
	return err
}

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
