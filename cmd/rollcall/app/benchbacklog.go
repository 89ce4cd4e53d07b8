package app

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// backlogBench is "rollcall bench" with --backlog or --hopeless.
type backlogBench struct {
	waiting, hopeless, events int
	policy                    string
	unequal                   bool
}

func (l *backlogBench) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.waiting, "backlog", 0, "let this many gangs wait for nodes that are full, and measure the cost of "+
		"an event: a node changes its size, a pod comes or goes, or the gang or pod that runs longest ends; "+
		"with --nodes and --policy")
	f.IntVar(&l.hopeless, "hopeless", 0, "as --backlog: let this many gangs that can never fit wait in front")
	f.BoolVar(&l.unequal, "unequal", false,
		"with --backlog and --hopeless: let the members of a gang differ in their requests")
	f.StringVar(&l.policy, "policy", string(coscheduling.BestEffort),
		"with --backlog and --hopeless: the queue policy, BestEffort, StrictFIFO or Backfill")
	f.IntVar(&l.events, "events", 1000, "with --backlog and --hopeless: how many events are measured")
}

// asked reports whether a backlog is to be measured.
func (l *backlogBench) asked() bool { return l.waiting != 0 || l.hopeless != 0 }

// ofBacklog are the flags of "rollcall bench" that say something about a backlog.
var ofBacklog = []string{"backlog", "hopeless", "policy", "events", "unequal", "nodes", "dir", "log", "cpuprofile",
	"output", "against", "rounds"}

// check reports errors of the flags.
func (l *backlogBench) check(cmd *cobra.Command) error {
	for _, name := range []string{"policy", "events", "unequal"} {
		if !l.asked() && cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s is for --backlog and --hopeless: give one of them", name)}
		}
	}
	if !l.asked() {
		return nil
	}
	unfit := ""
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if unfit == "" && f.Changed && !slices.Contains(ofBacklog, f.Name) {
			unfit = f.Name
		}
	})
	if unfit != "" {
		return usageError{fmt.Errorf("--%s says nothing about a backlog: leave it out, or --backlog and --hopeless",
			unfit)}
	}
	if !slices.Contains(coscheduling.QueuePolicies, coscheduling.QueuePolicy(l.policy)) {
		return usageError{fmt.Errorf("--policy is %q: want one of %v", l.policy, coscheduling.QueuePolicies)}
	}
	if l.events < 1 {
		return usageError{fmt.Errorf("--events is %d: want at least 1", l.events)}
	}
	return nil
}

// runBacklog measures a backlog.
func (b *coreBench) runBacklog(cmd *cobra.Command) error {
	o := throughput.BacklogOptions{Policy: coscheduling.QueuePolicy(b.backlog.policy), Events: b.backlog.events,
		Dir: b.Dir, Log: b.Log, Version: version().Version}
	o.Nodes, o.Waiting, o.Hopeless = b.Nodes, b.backlog.waiting, b.backlog.hopeless
	o.Unequal = b.backlog.unequal
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	if err := b.out.check(); err != nil {
		return err
	}
	if b.pair.other != "" {
		return b.pair.run(cmd, &b.out, true)
	}
	p := newProgress(cmd.ErrOrStderr())
	o.Progress = func(doing string, done, of int) { p.show("%s: %d of %d", doing, done, of) }
	var profile *os.File
	o.Started = func() (err error) {
		if b.cpuProfile == "" {
			return nil
		}
		if profile, err = os.Create(b.cpuProfile); err != nil {
			return err
		}
		return pprof.StartCPUProfile(profile)
	}
	o.Stopped = func() error {
		if profile == nil {
			return nil
		}
		pprof.StopCPUProfile()
		return profile.Close()
	}
	r, err := throughput.RunBacklog(cmd.Context(), o)
	p.done()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	facts := backlogFacts{r, runtime.GOMAXPROCS(0)}
	return b.out.write(cmd.OutOrStdout(), facts, facts.writeText)
}

// backlogFacts holds the facts that "rollcall bench --backlog" prints.
type backlogFacts struct {
	*throughput.BacklogResult
	Cores int `json:"cores"`
}

func (f backlogFacts) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { plainf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("workload", "%s, %s", f.Text, f.Policy)
	row("queueing", "%s of CPU for each of the gangs, its first attempt included",
		millis(f.FirstSeconds/float64(max(1, f.Waiting+f.Hopeless))))
	row("events", "%d, with %d decisions; %d gangs were placed", f.Events, f.Decisions, f.Placed)
	row("time", "%.3fs, %.3fs of CPU on %d cores", f.WallSeconds, f.CPUSeconds, f.Cores)
	row("an event", "%s of CPU", millis(f.PerEvent))
	row("memory", "peak %.0f MiB", float64(f.PeakRSS)/(1<<20))
	return t.Flush()
}
