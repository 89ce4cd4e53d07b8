package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/kube/remote"
)

// askDump runs a command here, on a dump that it takes of the cluster. The dump is never on a disk.
func (p *plugin) askDump(
	ctx context.Context, config *rest.Config, words, args []string, stdout, stderr io.Writer,
) error {
	if asksForHelp(args) {
		return p.runHere(ctx, slices.Concat(words, args), nil, stdout, stderr)
	}
	say(stderr, "kubectl rollcall: there is no Rollcall in the cluster: asking a dump of its objects, taken now\n")
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := make(chan error, 1)
	go func() {
		err := remote.Dump(ctx, config, out, func(message string) { say(stderr, "kubectl rollcall: %s\n", message) })
		_ = out.CloseWithError(err) // it never fails
		taken <- err
	}()
	err := p.runHere(ctx, slices.Concat(words, []string{dump.Stdin}, args), in, stdout, stderr)
	_ = in.CloseWithError(errNotRead) // it never fails
	if failed := <-taken; failed != nil && !errors.Is(failed, errNotRead) {
		return failed
	}
	return err
}

// errNotRead ends a dump that the command does not want.
var errNotRead = errors.New("the command has ended")

// runHere runs a command of rollcall in this process.
func (p *plugin) runHere(ctx context.Context, words []string, in io.Reader, stdout, stderr io.Writer) error {
	root := app.NewCommand()
	root.SetArgs(words)
	root.SetIn(in)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if code := app.Execute(ctx, root); code != 0 {
		return exitError(code)
	}
	return nil
}
