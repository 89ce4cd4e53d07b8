package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
)

// reading holds the flags for opening a log to read it.
type reading struct {
	registry framework.Registry // the plugins of the program
	archives []string           // directories with archived segments, beside the ones that the log names
}

func (r *reading) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&r.archives, "archive", nil, "a directory with archived segments of the log, "+
		"to be searched before those where they were archived; may be given more than once")
	_ = cmd.MarkFlagDirname("archive")
}

// options returns the options with which packages open the log. They show their messages on stderr, and progress by p.
func (r reading) options(p *progress) logs.Options {
	return logs.Options{
		Archives: r.archives, Registry: r.registry,
		Report: p.note,
		Progress: func(work string, at, last uint64) {
			switch {
			case last == 0:
				p.show("%s: entry %d", work, at)
			case work == "":
				p.show("entry %d of %d", at, last)
			default:
				p.show("%s: entry %d of %d", work, at, last)
			}
		},
	}
}

// A source is an open log or bundle, with the display of its progress.
type source struct {
	*logs.Source
	shown *progress
}

// open opens a log or a bundle for a command, by its path or URL.
func (r reading) open(cmd *cobra.Command, name string) (*source, error) {
	p := newProgress(cmd.ErrOrStderr())
	return openWith(cmd.Context(), name, r.options(p), p)
}

// openWith opens a log or a bundle with options that p shows the progress of.
func openWith(ctx context.Context, name string, opts logs.Options, p *progress) (*source, error) {
	s, err := opts.Open(ctx, name)
	p.done()
	if err != nil {
		return nil, err
	}
	return &source{s, p}, nil
}

// Close removes the line of progress, too.
func (s *source) Close() error {
	s.shown.done()
	return s.Source.Close()
}

// isUsage reports whether it is the command line that has to change.
func isUsage(err error) bool {
	var usage usageError
	var request *logs.RequestError
	return errors.As(err, &usage) || errors.As(err, &request)
}
