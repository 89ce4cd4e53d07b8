package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
)

// simulation is what the simulate command is asked to do.
type simulation struct {
	nodes, workload, config string
	until                   time.Duration
	keep                    keeping
	out                     output
}

func newSimulate() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate --nodes FILE|SHAPE --workload FILE [--log DIR]",
		Short: "Schedule a workload on a virtual cluster in virtual time",
		Long: `Schedules a workload on a virtual cluster whose clock jumps from event to event. Pods start
when they are bound and end after their duration. With --log every input and every decision
goes to a log that replay, explain and log read.

Nodes come from a file (Kubernetes YAML, or the nodes of the Alibaba "openb" trace as CSV) or
from a shape such as 16x16cpu or 5000x96cpu,768Gi,8gpu. Workloads come from Kubernetes YAML
(annotations rollcall.dev/arrival and rollcall.dev/duration give virtual times), the pods of
the openb trace, the Standard Workload Format (a job of N processors is a gang of N pods), or
the output of rollcall log cat. Readers are chosen by content.

If the process ended before the simulation did (it was killed, the disk was full), the same command
with --resume goes on behind the last entry of the log, and comes to the same end. With --effects each
bind is told when the virtual cluster carries it out, which is after its decision is on the disk.`,
		Example: `  rollcall simulate --nodes 16x16cpu --workload jobs.swf --log jobs.db
  rollcall simulate --nodes 16x16cpu --workload jobs.swf --log jobs.db --resume
  rollcall simulate --nodes nodes.yaml --workload pods.yaml --config scheduler.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.nodes, "nodes", "", "the nodes: a file, or a shape such as 16x16cpu")
	f.StringVar(&s.workload, "workload", "", "the workload: a file")
	f.StringVar(&s.config, "config", "", "a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); default: gang scheduling, every node scored")
	f.DurationVar(&s.until, "until", 0, "end after this much virtual time, such as 36h; default: when nothing can happen any more")
	s.keep.register(cmd)
	s.out.register(cmd)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	return cmd
}

func (s *simulation) run(cmd *cobra.Command) error {
	if err := s.check(); err != nil {
		return err
	}
	config, err := readConfig(s.config)
	if err != nil {
		return err
	}
	nodes, err := readNodes(s.nodes)
	if err != nil {
		return err
	}
	work, err := sim.ReadWorkload(s.workload)
	if err != nil {
		return err
	}
	for _, note := range work.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "rollcall: %s: %s\n", s.workload, note)
	}
	summary, err := simulate(cmd.Context(), nodes, work, s.keep, config, s.until)
	if err != nil {
		return err
	}
	return s.out.write(cmd.OutOrStdout(), summary, summary.WriteText)
}

func (s *simulation) check() error {
	if s.nodes == "" || s.workload == "" {
		return usageError{fmt.Errorf("--nodes and --workload are needed")}
	}
	if s.until < 0 {
		return usageError{fmt.Errorf("--until is %s: want a duration above zero", s.until)}
	}
	if err := s.keep.check(); err != nil {
		return err
	}
	return s.out.check()
}

// readNodes takes the value of --nodes: a file if there is one of that name, a shape otherwise.
func readNodes(value string) ([]sim.NodePlan, error) {
	if _, err := os.Stat(value); err == nil {
		return sim.ReadNodes(value)
	}
	nodes, err := sim.ParseNodeSpec(value)
	if err != nil {
		return nil, usageError{fmt.Errorf("--nodes: there is no file %s, and it is no shape: %w", value, err)}
	}
	return nodes, nil
}

// readConfig returns the effective configuration: the file's, or the default one for "". What is wrong with it is
// said before any log is made.
func readConfig(path string) ([]byte, error) {
	if path == "" {
		return framework.EncodeConfig(framework.DefaultConfig())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg, err := framework.LoadConfig(data, path)
	if err != nil {
		return nil, err
	}
	if err := framework.ValidatePlugins(cfg, plugins.NewRegistry()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := tryConfig(config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// tryConfig starts the plugins: some of what is wrong with their arguments only they can tell.
func tryConfig(config []byte) error {
	_, err := engine.Open(context.Background(), new(discardLog), sim.Start, engine.Options{Registry: plugins.NewRegistry(), Config: config})
	if why := errors.Unwrap(err); why != nil {
		return why // without the number of the entry: there is no log yet
	}
	return err
}

// simulate runs work on nodes and returns the summary. What is kept of it, and whether it goes on with what was
// kept before, keep says.
func simulate(ctx context.Context, nodes []sim.NodePlan, work *sim.Workload, keep keeping, config []byte, until time.Duration) (s sim.Summary, err error) {
	cluster, err := sim.New(nodes, work, sim.Options{Until: until})
	if err != nil {
		return s, err
	}
	w, err := keep.open(config)
	if err != nil {
		return s, err
	}
	defer func() {
		if cerr := w.close(); err == nil {
			err = cerr
		}
	}()
	sched, err := w.scheduler(ctx)
	if err != nil {
		return s, keep.explainStop(err)
	}
	p := newProgress()
	s, err = cluster.Run(ctx, sched, func(at sim.Progress) {
		p.show("%s virtual time, %d of %d pods arrived, %d bound, %d ended, %s",
			at.Now.Sub(sim.Start).Round(time.Second), at.Arrived, at.Pods, at.Bound, at.Ended, w)
	})
	elapsed := p.done()
	if err == nil {
		err = w.finished()
	}
	s.Measured(w.decided(), elapsed)
	return s, keep.explainStop(err)
}

// discardLog is the log of a simulation that keeps none: it remembers how far it has come and nothing else.
type discardLog struct{ last uint64 }

func (l *discardLog) Append(expectedLast uint64, entries []eventlog.Entry) error {
	if expectedLast != l.last {
		return &eventlog.ConflictError{Expected: expectedLast, Actual: l.last}
	}
	l.last += uint64(len(entries))
	return nil
}

func (l *discardLog) Read(uint64) iter.Seq2[eventlog.Entry, error] {
	return func(func(eventlog.Entry, error) bool) {}
}

func (l *discardLog) Last() (uint64, error) { return l.last, nil }
func (l *discardLog) Close() error          { return nil }
