package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
)

// coreBench is "rollcall bench".
type coreBench struct {
	throughput.Options
	out                 output
	shapes              string
	classes             classes
	cpuProfile, memFile string
	backlog             backlogBench
	pair                benchPair
}

func newBench() *cobra.Command {
	b := &coreBench{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine schedules, the log included",
		Long: `Schedules pods of one GPU each on nodes of 96 CPUs, 768 GiB and 8 GPUs, as fast
as it goes. The log is in a temporary directory on disk. Every event and every
decision is durable before anything comes of it. A bind does nothing, and is
answered at once. The workload is the same in every run. If there are more pods
than GPUs, the oldest pods end as new ones come.

The score is the score of the chosen nodes at the time of the choice: what
kube-scheduler's NodeResourcesFit and NodeResourcesBalancedAllocation give them
by default. Its maximum is 200.

With --dra the GPUs are devices. Each node has a ResourceSlice of 8. Each pod
has a ResourceClaim for one, made from a template. The bind writes the claim,
and the end of the pod deletes it. The time to take in the nodes is reported
separately.

With --preempt pods of lower priority have all GPUs. Half of these pods are in
gangs, and every other gang can only be evicted as a whole. Then all new pods
come at once, in gangs of 8, and each gang needs evictions. An evicted pod is
gone at once.

With --backlog all nodes are full and gangs wait. With --hopeless, gangs that
can never fit wait in front. One event comes in each second of the log's time.
The result is the CPU time of an event.

With --against another rollcall program runs the same workload, such as a build
from before a change. The two take turns, and each run has a process of its own.
A ratio divides this program's figure by the other's in the same round.

"rollcall bench log" measures the log alone.`,
		Example: `  rollcall bench
  rollcall bench --nodes 15000 --shapes 20
  rollcall bench --gang 512 --classes off -o json
  rollcall bench --nodes 50000 --pods 200000 --gang 8-1024 --shapes 100
  rollcall bench --affinity --pods 5000
  rollcall bench --soft-spread --apps 500 --pods 5000
  rollcall bench --preempt
  rollcall bench --preempt --nodes 500 --gang 4 --pods 400 -o json
  rollcall bench --idle 500 --cpuprofile cpu.prof
  rollcall bench --backlog 10000 --policy Backfill
  rollcall bench --hopeless 1000 --backlog 100 --nodes 1000
  rollcall bench --shapes 20 --against ./rollcall-before --rounds 3
  rollcall bench --dra --log dra.db && rollcall replay dra.db
  rollcall bench --log nats://nats-0:4222/try
  rollcall bench log --dir /var/lib/rollcall`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	f := cmd.Flags()
	b.registerWorkload(f)
	b.classes.register(cmd)
	f.Int32Var(&b.Percentage, "sample", 0, "percentageOfNodesToScore, 1 to 100; 0: the default, all")
	f.IntVar(&b.Idle, "idle", 0, "then let this many pods come one at a time, each when nothing is left to do")
	f.IntVar(&b.Batch, "batch", 1000, "the most pods that come at once; a gang always comes at once")
	f.StringVar(&b.Dir, "dir", "", "a directory on the file system for the log; default: that for temporary files")
	f.StringVar(&b.Log, "log", "", "keep the log, to replay or explain it: in this new directory, or in "+
		"NATS JetStream as nats://HOST/STREAM; default: it is removed")
	f.DurationVar(&b.Limit, "limit",
		0, "end after this much time, with the pods that are placed by then; 0: when all are placed")
	f.StringVar(&b.cpuProfile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
	f.StringVar(&b.memFile, "memprofile", "",
		"write a profile of all allocations up to the end of the measured time to this file")
	b.backlog.register(cmd)
	b.pair.register(f)
	b.out.register(cmd)
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.MarkFlagDirname("log")
	cmd.AddCommand(newBenchLog())
	return cmd
}

// registerWorkload adds the flags that describe the workload.
func (b *coreBench) registerWorkload(f *pflag.FlagSet) {
	f.IntVar(&b.Nodes, "nodes", 5000, "how many nodes there are")
	f.IntVar(&b.Pods, "pods", 10000, "how many pods come")
	f.Var(b.GangFlag(), "gang", workload.GangUsage)
	f.StringVar(&b.shapes, "shapes", "1",
		"how many different requests for CPU and memory there are; all: every pod has its own")
	f.BoolVar(&b.Spread, "spread", false, "spread the pods over three zones: maxSkew 1, DoNotSchedule")
	f.BoolVar(&b.Affinity, "affinity", false,
		"the pods of an app must be on different nodes, and prefer a zone with other pods of the app")
	f.BoolVar(&b.SoftSpread, "soft-spread", false,
		"spread the pods of an app over zones and nodes: maxSkew 1, ScheduleAnyway")
	f.BoolVar(&b.ZoneAffinity, "zone-affinity", false,
		"pods must be in a zone with a pod of another app, except the pods of the first app")
	f.BoolVar(&b.NamespaceAffinity, "namespace-affinity", false,
		"as --zone-affinity, with apps in several namespaces, which pods select by a label")
	f.IntVar(&b.Apps, "apps", 0, "how many apps there are, with one of these four flags; 0: 50")
	f.BoolVar(&b.DRA, "dra", false, "the GPUs are devices of ResourceSlices, and each pod has a ResourceClaim for "+
		"one; with it --nodes is 100 and --gang 16 unless given")
	f.BoolVar(&b.Preempt, "preempt", false, "all nodes are full with pods of lower priority, and all pods come at "+
		"once and preempt; with it --pods is 8000 and --gang 8 unless given")
}

func (b *coreBench) run(cmd *cobra.Command) error {
	if err := b.backlog.check(cmd); err != nil {
		return err
	}
	if err := b.pair.check(cmd); err != nil {
		return err
	}
	if b.backlog.asked() {
		return b.runBacklog(cmd)
	}
	b.defaults(cmd)
	switch {
	case b.Preempt && cmd.Flags().Changed("batch"):
		return usageError{errors.New("--batch says nothing with --preempt: all pods come at once")}
	case b.Preempt && b.Idle > 0:
		return usageError{errors.New("--idle says nothing with --preempt: no node has room when gangs preempt")}
	}
	if err := b.check(); err != nil {
		return err
	}
	if b.pair.other != "" {
		return b.pair.run(cmd, &b.out, false)
	}
	p := newProgress(cmd.ErrOrStderr())
	b.Version = version().Version
	b.Progress = func(doing string, done, of int) { p.show("%s: %d of %d", doing, done, of) }
	var profile *os.File
	b.Started = func() (err error) {
		if b.cpuProfile == "" {
			return nil
		}
		if profile, err = os.Create(b.cpuProfile); err != nil {
			return err
		}
		return pprof.StartCPUProfile(profile)
	}
	b.Stopped = func() error {
		if profile != nil {
			pprof.StopCPUProfile()
			if err := profile.Close(); err != nil {
				return err
			}
		}
		return writeMemProfile(b.memFile)
	}
	r, err := throughput.Run(cmd.Context(), b.Options)
	p.done()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	facts := benchFacts{r, runtime.GOMAXPROCS(0)}
	if err := b.out.write(cmd.OutOrStdout(), facts, facts.writeText); err != nil {
		return err
	}
	if !r.Complete && b.Limit == 0 {
		return fmt.Errorf("bench: only %d of %d pods were placed", r.Placed, r.Pods)
	}
	return nil
}

// defaults sets the sizes that the user did not: 100 nodes and gangs of 16 with --dra, 1,000 gangs of 8 with --preempt.
func (b *coreBench) defaults(cmd *cobra.Command) {
	set := func(flag string, value *int, to int) {
		if !cmd.Flags().Changed(flag) {
			*value = to
		}
	}
	if b.DRA {
		set("nodes", &b.Nodes, 100)
		set("gang", &b.Gang, 16)
	} else if b.Preempt {
		set("gang", &b.Gang, 8)
		set("pods", &b.Pods, 1000*b.Gang)
	}
}

// check reads the flags that are words.
func (b *coreBench) check() error {
	if err := b.classes.check(); err != nil {
		return err
	}
	b.WithoutClasses = b.classes == "off"
	if b.Shapes = b.Pods; !strings.EqualFold(b.shapes, "all") {
		n, err := strconv.Atoi(b.shapes)
		if err != nil {
			return usageError{fmt.Errorf("--shapes is %q: want a number from 1, or all", b.shapes)}
		}
		b.Shapes = n
	}
	if b.Batch < 1 {
		return usageError{fmt.Errorf("batches of %d pods: want at least 1", b.Batch)}
	}
	if b.Dir != "" && b.Log != "" {
		return usageError{errors.New("--dir is for a log that is removed, and --log keeps it: give one of them")}
	}
	if b.Limit < 0 {
		return usageError{errors.New("--limit is below zero")}
	}
	if err := b.Check(); err != nil {
		return usageError{err}
	}
	return b.out.check()
}

// writeMemProfile writes a profile of the memory allocated so far and of the memory still in use; none without a path.
func writeMemProfile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// benchFacts holds the facts that "rollcall bench" prints.
type benchFacts struct {
	*throughput.Result
	Cores int `json:"cores"`
}

func (f benchFacts) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { plainf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("workload", "%s", f.Text)
	row("placed", "%d of %d pods, by %d decisions", f.Placed, f.Pods, f.Decisions)
	if f.Preempt {
		row("evicted", "%d pods, for %d of %d gangs", f.Evicted, f.Evictors, f.Pods/f.Gang)
	}
	row("time", "%.3fs, %.3fs of CPU on %d cores, %s of it a pod; %.3fs before that for the nodes", f.WallSeconds,
		f.CPUSeconds, f.Cores, millis(f.CPUSeconds/float64(max(1, f.Placed))), f.LoadSeconds)
	row("rate", "%.0f pods/s, %.0f decisions/s", f.PodsPerSecond, f.DecisionsPerSecond)
	row("latency", "p50 %s, p99 %s, from input to durable decision", millis(f.LatencyP50), millis(f.LatencyP99))
	if f.IdlePods > 0 {
		row("when idle", "p50 %s, p99 %s, %d pods one at a time", millis(f.IdleP50), millis(f.IdleP99), f.IdlePods)
	}
	row("log", "%.0f bytes a pod; its files grew by %.0f a pod", f.BytesPerPod, f.FileBytesPerPod)
	row("memory", "peak %.0f MiB; live heap %.1f KiB a node, %.1f KiB a pod", float64(f.PeakRSS)/(1<<20),
		f.HeapPerNode/1024, f.HeapPerPod/1024)
	row("mean score", "%.2f of %d", f.MeanScore, f.MaxScore)
	return t.Flush()
}

func millis(seconds float64) string { return fmt.Sprintf("%.2fms", 1000*seconds) }
