package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// reading holds the flags for opening a log to read it.
type reading struct {
	registry framework.Registry // the plugins of the program
	archives []string           // directories with archived segments, beside the ones that the log names
	says     bool               // the answer itself says what a dump does not know
	config   string             // the configuration for evaluations on a dump or a recording; "" for the default one
}

func (r *reading) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&r.archives, "archive", nil, "a directory with archived segments of the log, "+
		"to be searched before those where they were archived; may be given more than once")
	_ = cmd.MarkFlagDirname("archive")
}

// registerConfig adds the flag for commands that evaluate what waits. Their answers say what a dump does not know.
func (r *reading) registerConfig(cmd *cobra.Command) {
	r.says = true
	cmd.Flags().StringVar(&r.config, "config", "", "of a dump or a recording: the KubeSchedulerConfiguration `file` "+
		"of the cluster's scheduler, to try pods with; default: the recording's, or kube-scheduler's plugins and gang "+
		"scheduling for every scheduler that pods name")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
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
	under []byte // the configuration to read a recording with; nil for its own
}

// past returns the history of the log.
func (s *source) past(opts history.Options) *history.Log {
	if s.under != nil {
		return history.New(history.Under(s.Source, s.under), opts)
	}
	return history.New(s.Source, opts)
}

// open opens a log, a bundle or a dump for a command, by its path or URL.
func (r reading) open(cmd *cobra.Command, name string) (*source, error) {
	p := newProgress(cmd.ErrOrStderr())
	opts := r.options(p)
	opts.Dump = dump.Options{Stdin: cmd.InOrStdin(), Now: time.Now}
	var config []byte
	if r.config != "" {
		cfg, err := loadConfig(r.registry, r.config, queuePolicy{}, framework.LiveOptions{Note: p.note})
		if err == nil {
			cfg.Recording = true
			opts.Dump.Config, err = framework.EncodeConfig(cfg)
		}
		if err == nil {
			cfg.Recording = true
			config, err = framework.EncodeConfig(cfg)
		}
		if err != nil {
			return nil, err
		}
	}
	log, err := openWith(cmd.Context(), name, opts, p)
	if err == nil && r.config != "" && log.Dumped == nil {
		if !log.records(cmd.Context()) {
			return nil, errors.Join(usageError{fmt.Errorf(
				"--config is for a dump or a recording: %s has decisions, and its own configuration", name)},
				log.Close())
		}
		log.under = config
	}
	if err == nil && log.Dumped != nil && !r.says {
		p.note(log.undecided())
	}
	return log, err
}

// missing says when changes may be missing in a log.
func (r reading) missing(cmd *cobra.Command, name string) ([]history.Missing, error) {
	p := newProgress(cmd.ErrOrStderr())
	opts := r.options(p)
	opts.Report = nil // the command has reported it
	log, err := openWith(cmd.Context(), name, opts, p)
	if err != nil {
		return nil, err
	}
	all, err := history.New(log.Source, history.Options{}).Missing(cmd.Context())
	return all, errors.Join(err, log.Close())
}

// noteMissing reports that changes may be missing before an entry of a log.
func (s *source) noteMissing(ctx context.Context, past *history.Log, last uint64) error {
	all, err := past.Missing(ctx)
	for i := range all {
		if all[i].Seq <= last {
			s.shown.note(all[i].Message)
		}
	}
	return err
}

// openWith opens a log or a bundle with options that p shows the progress of.
func openWith(ctx context.Context, name string, opts logs.Options, p *progress) (*source, error) {
	s, err := opts.Open(ctx, name)
	p.done()
	if err != nil {
		return nil, err
	}
	return &source{Source: s, shown: p}, nil
}

// records reports whether the log is one of a cluster that others schedule, as far as its beginning tells. The rest is
// checked when it is read.
func (s *source) records(ctx context.Context) bool {
	base, err := s.Base()
	if err != nil {
		return false
	}
	if base > 0 {
		m, err := s.Restore(base)
		return err == nil && m != nil && framework.LoggedRecording(m.Config())
	}
	for e, err := range s.Read(ctx, 1) {
		epoch, ok := e.Payload.(*eventlog.EpochStarted)
		return err == nil && ok && framework.LoggedRecording(epoch.Config)
	}
	return false
}

// undecided says what a dump cannot know; "" for a log.
func (s *source) undecided() string {
	if s.Dumped == nil {
		return ""
	}
	return s.Dumped.Sentence()
}

// placing returns the facts in a dump about a pod's way to its node; nil for none.
func (s *source) placing(uid types.UID) *answer.Placing {
	p, ok := s.Dumped.Placing(uid)
	if !ok {
		return nil
	}
	x := &answer.Placing{By: p.By}
	if !p.Since.IsZero() {
		x.Since = answer.Instant(p.Since.UnixNano())
	}
	return x
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
