// Command kubectl-rollcall is the kubectl plugin "kubectl rollcall": it finds the scheduler that runs in the cluster
// and asks it, where its log is.
//
// Start reading at root.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/rollcall-sched/rollcall/internal/termwidth"
)

// exitError is the exit code of the command that ran in the cluster, which has said by itself what was wrong.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is bad usage: a flag or argument that is missing, unknown or wrong.
type usageError struct{ error }

func main() { os.Exit(run()) }

// run returns the exit code: the code of the command that ran in the cluster, or 1 if it could not be run, or 2 for
// bad usage.
func run() int {
	klog.SetLogger(logr.Discard()) // what client-go would say about a connection is in our errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, whatever it is at
	err := newRoot().ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	say(os.Stderr, "kubectl rollcall: %v\n", err)
	if isUsage(err) {
		say(os.Stderr, "Run the command with --help for its usage and an example.\n")
		return 2
	}
	return 1
}

// say writes for people: the text is wrapped for a terminal.
func say(w io.Writer, format string, args ...any) {
	_ = termwidth.Fit(w, func(w io.Writer) error { // that nothing can be said cannot be said either
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// isUsage reports whether an error is about the command line. Those of flags before a command come from pflag as they
// are.
func isUsage(err error) bool {
	var usage usageError
	var unknown *pflag.NotExistError
	var without *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	var malformed *pflag.InvalidSyntaxError
	return errors.As(err, &usage) || errors.As(err, &unknown) || errors.As(err, &without) ||
		errors.As(err, &wrong) || errors.As(err, &malformed)
}
