package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// The exit codes; each is documented in the help text of the root command.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDiverged = 3
	exitDamaged  = 4
	exitRules    = 5
)

// errDiverged is returned by a command that has already reported a divergence.
var errDiverged = errors.New("the log diverged from its replay")

// errOtherRules is returned by a command that has already reported decisions that differ only because rules were
// changed.
var errOtherRules = errors.New("the log was decided by rules that this version has not kept")

// usageError is bad usage: a flag or argument that is missing, unknown or wrong.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Run executes the program's root command (NewCommand) with the arguments of the process, and returns the exit code. It
// ends the work on SIGINT and SIGTERM.
func Run(root *cobra.Command) int {
	klog.SetLogger(logr.Discard()) // our errors contain the messages of Kubernetes packages about a configuration
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, whatever it is at
	return execute(ctx, root)
}

// Execute executes a root command until ctx is done, and returns the exit code. It is for programs that have the
// command's input and output in memory. It does not change the process.
func Execute(ctx context.Context, root *cobra.Command) int { return execute(ctx, root) }

// execute executes a root command until ctx is done, and returns the exit code. It does not change the process, so
// several commands may be executed at a time.
func execute(ctx context.Context, root *cobra.Command) int {
	stderr := root.ErrOrStderr()
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil, errors.Is(err, errDiverged), errors.Is(err, errOtherRules), errors.Is(err, errViolated),
		errors.Is(err, errDiffers):
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		sayf(stderr, "rollcall: interrupted: %v\n", plainLines(err.Error()))
	default:
		sayf(stderr, "rollcall: %v\n", plainLines(err.Error()))
	}
	var missing *framework.MissingPluginError
	if errors.As(err, &missing) {
		sayf(stderr, "A plugin of others is compiled in by its name (docs/PLUGINS.md): rollcall version "+
			"lists those of this program, rollcall log info those of each epoch of a log.\n")
	}
	if isUsage(err) {
		sayf(stderr, "Run the command with --help for its usage and an example.\n")
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var unreadable *eventlog.UnreadableError
	var damaged *eventlog.DamagedError
	var damagedBundle *bundle.DamagedError
	var mismatch *audit.MismatchError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDiverged), errors.Is(err, errDiffers):
		return exitDiverged
	case errors.Is(err, errOtherRules):
		return exitRules
	case errors.As(err, &mismatch): // whatever else there is that could not be read
		return exitDamaged
	case errors.As(err, &unreadable):
		return exitFailed
	case errors.As(err, &damaged), errors.As(err, &damagedBundle),
		errors.Is(err, snapshot.ErrNotTheEntries):
		return exitDamaged
	case isUsage(err):
		return exitUsage
	}
	return exitFailed
}
