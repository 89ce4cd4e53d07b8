package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/kube/extender"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/simulate"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// simulation holds the arguments of the simulate command.
type simulation struct {
	nodes, workload []string
	config          string
	queuePolicy     queuePolicy
	featureGates    map[string]bool
	until           time.Duration
	report, plot    target
	reportPods      bool
	requeue         string
	keep            keeping
	out             output
}

const simulateHelp = `Schedules a workload on a virtual cluster whose clock jumps from event to event.
A pod starts when it is bound and ends after its duration. With --log every
input and every decision goes to a log that replay, explain and log read.

Nodes come from a file (Kubernetes YAML, or the nodes of the Alibaba "openb"
trace as CSV) or from a shape such as 16x16cpu or 5000x96cpu,768Gi,8gpu.
Workloads come from Kubernetes YAML (the annotations rollcall.dev/arrival and
rollcall.dev/duration give virtual times), the pods of the openb trace, the
Standard Workload Format (a job of N processors is a gang of N pods), or the
output of rollcall log cat. The reader is chosen by the file's content. --nodes
and --workload may be given several times. Of a directory, the files that end in
.yaml, .yml, .json, .jsonl, .csv or .swf are read, by name; each of these may
also end in .gz. The Kubernetes objects of all files belong together.
docs/guides/simulating.md has all annotations. Feature gates are in the log:
replay and explain take them from there.

HTTP extenders of the configuration are asked, each question while the virtual
clock stands: their servers have to be there. They are told of pods and nodes as
the workload has them. What they answer goes to the log, so that replay and
explain need no server. Another run of the same simulation comes to the same end
only if they answer the same; with --resume, what the log has of their answers
is taken from there. bindVerb is not called.

If the process ended before the simulation did (it was killed, the disk was
full), the same command with --resume goes on behind the last entry of the log,
and comes to the same end. With --effects each bind is reported when the virtual
cluster carries it out, after its decision is on the disk. Without --effects,
the simulation waits for the disk only at its end.

Pods that are preempted, lost with their node, or evicted because their gang
fell below its minimum come again at once and from their start, as --requeue
says. With "owned", those do that a controller owns: the pods of Jobs and of
what has replicas, and pods with a controller among their ownerReferences. They
have a new UID, and the name that their controller would give them. With "all",
the others come again too, under their names; the pods of traces are among
these. With "none", none do. The summary says what became of them.

--report writes a CSV file with a line for each group: its name, how many of its
pods came, when the first of them was submitted, when its minimum was there
(complete), when its minimum was on nodes for the first time (placed), when it
had completed (finished), the number of attempts, its outcome, when the last pod
was gone however it went (ended), its priority, how often its pods were
preempted, lost with a node and evicted with their gang, how often one came
again, what preempted them, and for how many GPU-seconds they had run then.
Times are seconds since the start of the simulation, with up to nine decimals;
what did not happen is empty. --report-pods adds a line for each pod without a
group. --plot draws utilisation and queue length over time as an SVG file. Both
files appear under their names when they are whole.

An outcome is completed, running, preempted, lost (with a node), evicted (with
its gang), failed (cut short by its own activeDeadlineSeconds), withdrawn
(deleted at a deadline), pending (never placed), pending again, or not arrived.

A pod declares by activeDeadlineSeconds or by the annotation
rollcall.dev/duration how long it will use its resources; --queue-policy
Backfill plans with that. Jobs of the Standard Workload Format declare their
requested time (or else their run time) and run for their run time.`

func newSimulate(registry framework.Registry) *cobra.Command {
	s := simulation{
		report: target{flag: "--report"}, plot: target{flag: "--plot"},
		keep: keeping{reading: reading{registry: registry}},
	}
	cmd := &cobra.Command{
		Use: "simulate --nodes FILE|DIR|SHAPE --workload FILE|DIR [--log DIR]",

		DisableFlagsInUseLine: true, // the line would be too long

		Short: "Schedule a workload on a virtual cluster in virtual time",
		Long:  simulateHelp,
		Example: `  rollcall simulate --nodes 16x16cpu --workload jobs.swf --log jobs.db
  rollcall simulate --nodes 16x16cpu --workload jobs.swf --log jobs.db --resume
  rollcall simulate --nodes 16x16cpu --workload jobs.swf \
    --report jobs.csv --plot jobs.svg
  rollcall simulate --nodes nodes.yaml --workload pods.yaml \
    --config scheduler.yaml -o json
  kubectl get pods -A -o yaml | \
    rollcall simulate --nodes nodes.yaml --workload manifests/ --workload - \
    --until 1d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer headroom.Keep()()
			return s.run(cmd)
		},
	}
	s.register(cmd)
	return cmd
}

// register registers the flags.
func (s *simulation) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.nodes, "nodes", nil,
		"the nodes: a file, a directory, - for standard input, or a shape such as 16x16cpu; another --nodes adds more")
	f.StringArrayVar(&s.workload, "workload", nil,
		"the workload: a file, a directory, or - for standard input; another --workload adds more")
	f.StringVar(&s.config, "config", "",
		"a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); default: gang scheduling, every node scored")
	s.queuePolicy.register(cmd, s.keep.reading.registry)
	f.Var(cliflag.NewMapStringBool(&s.featureGates), "feature-gates",
		"Kubernetes' feature gates that are not at their defaults, such as A=true,B=false; before those of --config")
	durationVar(f, &s.until, "until",
		0, "end after this much virtual time, such as 36h or 2d; default: when nothing can happen any more")
	f.StringVar(&s.requeue, "requeue", sim.RequeueOwned.String(),
		"which pods come again that are preempted, lost or evicted: owned (by a controller), all, or none")
	f.StringVar(&s.report.path, "report", "",
		"write a line of CSV for each group to this file; - for standard output, the summary then goes to standard "+
			"error")
	f.BoolVar(&s.reportPods, "report-pods", false, "with --report, write a line for each pod of no group too")
	f.StringVar(&s.plot.path, "plot", "",
		"draw utilisation and queue length over time to this SVG file; - for standard output, as above")
	s.keep.register(cmd)
	s.out.register(cmd)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
}

func (s *simulation) run(cmd *cobra.Command) error {
	if err := s.check(); err != nil {
		return err
	}
	cfg, config, err := readConfig(cmd, s.keep.reading.registry, s.config, s.queuePolicy, s.featureGates)
	if err != nil {
		return err
	}
	own := framework.LoggedPluginResources(config)
	nodes, err := s.readNodes(cmd.InOrStdin(), own)
	if err != nil {
		return err
	}
	work, err := workload.Sources{Paths: s.workload, Stdin: cmd.InOrStdin(), Own: own}.Workload()
	if err != nil {
		return err
	}
	if err := checkProfiles(work, config); err != nil {
		return err
	}
	for _, note := range slices.Concat(work.Notes, work.Unoffered(nodes)) {
		sayf(cmd.ErrOrStderr(), "rollcall: %s: %s\n", strings.Join(s.workload, ", "), note)
	}
	requeue, err := sim.ParseRequeue(s.requeue)
	if err != nil {
		return err
	}
	options := sim.Options{Until: s.until, Requeue: requeue, Singles: s.reportPods, Timeline: s.plot.path != "",
		GroupClaims: cfg.FeatureGates.On(string(features.DRAWorkloadResourceClaims))}
	var cluster *sim.Cluster
	if len(cfg.Extenders) > 0 {
		node := func(name string) *corev1.Node { return cluster.Node(name) }
		options.Extenders, err = extender.New(extender.Options{Extenders: cfg.Extenders, Node: node})
		if err != nil {
			return fmt.Errorf("%s: %w", s.config, err)
		}
	}
	if cluster, err = sim.New(nodes, work, options); err != nil {
		return err
	}
	for _, t := range []*target{&s.report, &s.plot} { // what cannot be written is said before the work
		if err := t.open(); err != nil {
			return err
		}
		defer t.discard()
	}
	summary, err := s.keep.simulate(cmd, cluster, config)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if err := s.writeFiles(cmd, cluster, summary); err != nil {
		return fmt.Errorf("%w\n%s", err, s.adviceOnFiles())
	}
	if s.report.path == "-" || s.plot.path == "-" {
		out = cmd.ErrOrStderr()
	}
	return s.out.write(out, summary, summary.WriteText)
}

// adviceOnFiles tells what to do about a report or a plot that could not be written.
func (s *simulation) adviceOnFiles() string {
	switch {
	case s.keep.log == "":
		return "See that the file can be written, then run the same command again: no log was kept (--log) that it " +
			"could be made of."
	case s.keep.resume:
		return "The simulation has come to its end and its log is whole. See that the file can be written, then run " +
			"the same command again."
	}
	return "The simulation has come to its end and its log is whole. See that the file can be written, then run the " +
		"same command with --resume."
}

// writeFiles writes the report and the plot, if they are asked for.
func (s *simulation) writeFiles(cmd *cobra.Command, cluster *sim.Cluster, summary report.Summary) error {
	if s.report.path != "" {
		rows := cluster.Report()
		if len(rows) == 0 && !s.reportPods {
			sayf(cmd.ErrOrStderr(),
				"rollcall: the report has no line: no pod is in a group; --report-pods adds a line for each pod\n")
		}
		if err := s.report.write(cmd.OutOrStdout(),
			func(w io.Writer) error { return report.WriteRows(w, rows) }); err != nil {
			return err
		}
	}
	if s.plot.path == "" {
		return nil
	}
	title := fmt.Sprintf("%s on %s", baseNames(s.workload), baseNames(s.nodes))
	figure := cluster.Timeline().Figure(title, s.queuePolicy.name, summary)
	return s.plot.write(cmd.OutOrStdout(), func(w io.Writer) error { return svgplot.WriteSVG(w, figure) })
}

func (s *simulation) check() error {
	if len(s.nodes) == 0 || len(s.workload) == 0 {
		return usageError{fmt.Errorf("--nodes and --workload are needed")}
	}
	if slices.Contains(s.nodes, "-") && slices.Contains(s.workload, "-") {
		return usageError{errors.New("--nodes and --workload are both -: standard input can be read once")}
	}
	if s.until < 0 {
		return usageError{fmt.Errorf("--until is %s: want a duration above zero", s.until)}
	}
	switch {
	case s.reportPods && s.report.path == "":
		return usageError{errors.New("--report-pods needs --report")}
	case s.report.path != "" && s.report.path == s.plot.path:
		return usageError{fmt.Errorf("--report and --plot are both %s", s.plot.path)}
	}
	if _, err := sim.ParseRequeue(s.requeue); err != nil {
		return usageError{fmt.Errorf("--requeue is %w", err)}
	}
	if err := s.queuePolicy.check(); err != nil {
		return err
	}
	if err := s.keep.check(); err != nil {
		return err
	}
	return s.out.check()
}

// readNodes reads the values of --nodes: files and directories if there are any of these names, shapes otherwise. own
// are the resources that the configuration declares.
func (s *simulation) readNodes(stdin io.Reader, own []eventlog.OwnResource) ([]workload.NodePlan, error) {
	for _, value := range s.nodes {
		if _, err := os.Stat(value); err == nil || value == "-" {
			continue
		}
		if _, err := workload.ParseNodeSpec(value); err != nil {
			return nil, usageError{fmt.Errorf("--nodes: there is no file %s, and it is no shape: %w", value, err)}
		}
	}
	return workload.Sources{Paths: s.nodes, Stdin: stdin, Own: own}.Nodes()
}

// baseNames returns the last elements of paths, with commas between them.
func baseNames(paths []string) string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	return strings.Join(names, ", ")
}

// checkProfiles refuses pods that no profile of the configuration places.
func checkProfiles(work *workload.Workload, config []byte) error {
	cfg, err := framework.LoadConfig(config, "configuration")
	if err != nil {
		return err
	}
	var names []string
	for _, profile := range cfg.Profiles {
		names = append(names, profile.SchedulerName)
	}
	return work.CheckProfiles(names)
}

// readConfig returns the effective configuration, also encoded as it is logged: the file's, or the default one for "",
// with the queue policy and the feature gates that are given. It reports every fault of it before there is a log.
func readConfig(cmd *cobra.Command, registry framework.Registry, path string, policy queuePolicy,
	featureGates map[string]bool) (cfg *framework.Config, encoded []byte, err error) {
	note := func(message string) { printNote(cmd.ErrOrStderr(), message) }
	cfg, err = loadConfig(registry, path, policy, framework.ReadOptions{FeatureGates: featureGates, Note: note})
	if err != nil {
		return nil, nil, err
	}
	for i := range cfg.Extenders {
		if cfg.Extenders[i].BindVerb != "" {
			note(fmt.Sprintf("%s: extenders[%d]: bindVerb is not called: the virtual cluster binds", path, i))
		}
	}
	encoded, err = framework.EncodeConfig(cfg)
	return cfg, encoded, err
}

// configReader reads configurations in one of two ways: framework.ReadOptions or framework.LiveOptions.
type configReader interface {
	LoadConfig(data []byte, name string) (*framework.Config, error)
	DefaultConfig() (*framework.Config, error)
}

// readConfigFile returns the configuration of a file, or the default one for "", and the name of its source, for
// messages.
func readConfigFile(registry framework.Registry, path string, read configReader) (cfg *framework.Config, source string,
	err error) {
	if path == "" {
		if cfg, err = read.DefaultConfig(); err != nil {
			err = usageError{fmt.Errorf("--feature-gates: %w", err)} // nothing else could be wrong
		}
		return cfg, "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	if cfg, err = read.LoadConfig(data, path); err != nil {
		return nil, "", err
	}
	if cfg.Recording {
		return nil, "", fmt.Errorf("%s: recording: only a log has this field: use rollcall record", path)
	}
	if err := framework.ValidatePlugins(cfg, registry); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	if err := registry.DeclareReads(cfg); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return cfg, path, nil
}

// loadConfig is readConfig for a program that needs the configuration itself.
func loadConfig(registry framework.Registry, path string, policy queuePolicy, read configReader) (*framework.Config,
	error) {
	cfg, source, err := readConfigFile(registry, path, read)
	if err != nil {
		return nil, err
	}
	switch {
	case path != "":
	case policy.name != "":
		source = "--queue-policy"
	case cfg.FeatureGates != gates.Set{}:
		source = "--feature-gates"
	default:
		return cfg, nil
	}
	if err := policy.into(cfg.KubeSchedulerConfiguration, path); err != nil {
		return nil, err
	}
	encoded, err := framework.EncodeConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	// Afterwards the configuration's feature gates are in force: workloads are validated under them.
	if err := simulate.CheckConfig(registry, encoded); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return cfg, nil
}
