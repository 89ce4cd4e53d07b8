package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/config/options"
	"k8s.io/klog/v2"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/kube/serving"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
)

// running is the subcommand run.
type running struct {
	registry                   framework.Registry // the plugins of the program
	records                    bool               // others decide: it is the subcommand record, or a shadow
	shadow                     bool               // it compares the binds of others with its own choices
	config, kubeconfig, master string
	queuePolicy                queuePolicy
	log                        string
	archives                   []string
	segmentSize                size
	retention                  retention
	snapshotEvery              uint64
	snapshotAge                time.Duration
	grace                      time.Duration
	raiseBackoff               bool
	classes                    classes
	election                   componentbaseconfig.LeaderElectionConfiguration
	serving                    *serving.Options
	flags                      *cobra.Command
}

// inMemory is the value of --log for a log that ends with the process.
const inMemory = "memory"

func newRun(registry framework.Registry) *cobra.Command {
	r := &running{registry: registry, serving: serving.NewOptions()}
	cmd := &cobra.Command{
		Use:   "run --log DIR|nats://HOST/STREAM",
		Short: "Schedule the pods of a Kubernetes cluster",
		Long: `Schedule the pods of a Kubernetes cluster, beside kube-scheduler or in its
place. Every event that scheduling reads and every decision is in the log before
anything is asked of the cluster, so that all other commands work on the log:
"rollcall explain DIR pod NS/NAME" beside the running scheduler, "rollcall
replay DIR" at any time.

The flags mean what they mean for kube-scheduler; --config takes the same
KubeSchedulerConfiguration. Without it, pods whose spec.schedulerName is
rollcall are scheduled, beside kube-scheduler. To run in its place, name
default-scheduler in a profile: the lease is kube-scheduler's then, unless you
name one, so that the two never schedule at the same time.

The log is a directory of files that one scheduler writes at a time. It must
outlive the process: in a cluster, put it on a persistent volume. It is kept
within --retain-size: of what is older the oldest files go, once a snapshot that
was compared with the entries stands for them. With --log nats://HOST/STREAM it
is a stream of NATS JetStream, which is kept whole, and survives the loss of a
machine. Start two or more with that log: one leads, the others follow the log,
have its state ready, and take over within a second or two when the leader is
gone (docs/HA.md). With --log memory nothing is kept: it is for trying things
out.

With --shadow nothing is bound or written, and no lease is taken. The process
lists and watches as "rollcall record" does, and compares each bind of the
present scheduler with the node that Rollcall would have chosen just before: in
the metrics rollcall_shadow_…, in its output where they differ, and later by
"rollcall diff DIR --with rollcall". --config is that scheduler's then.

On SIGTERM nothing more is decided; the binds that are under way are waited for,
and the log is closed. A second signal ends the process at once; that loses
nothing either: the next start asks the API server what came of them.`,
		Example: `  rollcall run --kubeconfig ~/.kube/config --config scheduler.yaml \
    --log /var/lib/rollcall/log
  rollcall explain /var/lib/rollcall/log pod default/trainer-0
  rollcall run --kubeconfig ~/.kube/config --log memory --leader-elect=false
  rollcall run --shadow --kubeconfig ~/.kube/config --log cluster.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer headroom.Keep()()
			return r.run(cmd.Context())
		},
	}
	r.flags = cmd
	f := cmd.Flags()
	f.StringVar(&r.config, "config", "",
		"a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); default: the scheduler's name is rollcall, "+
			"gang scheduling, every node scored")
	r.queuePolicy.register(cmd, registry)
	durationVar(f, &r.grace, "shutdown-grace", 20*time.Second,
		"how long binds and evictions that are under way are waited for on SIGTERM")
	f.BoolVar(&r.raiseBackoff, "raise-zero-backoff", false,
		"take a podInitialBackoffSeconds of 0, which Kubernetes' own scheduler tests have, for 1")
	_ = f.MarkHidden("raise-zero-backoff")
	f.BoolVar(&r.shadow, "shadow", false, "decide beside the present scheduler and bind nothing: compare its binds "+
		"with the nodes that Rollcall would have chosen; the log is a recording")
	r.register(cmd)
	return cmd
}

// register registers the flags of run and record.
func (r *running) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.log, "log", "", "the log: a directory or nats://HOST/STREAM, which is made if there is none, or "+
		"memory; needed")
	f.StringVar(&r.kubeconfig, "kubeconfig", "",
		"the kubeconfig file of the API server; it goes before the one that --config names; default: the cluster that "+
			"this runs in")
	f.StringVar(&r.master, "master", "", "the API server's address, in place of the one in the kubeconfig file")
	f.StringArrayVar(&r.archives, "archive", nil,
		"a directory that segments of the log were archived to; may be given several times")
	f.Var(&r.segmentSize, "segment-size",
		"begin a new file of the log after this many `bytes`, such as 64MiB; default: 256MiB")
	r.retention.register(cmd)
	f.Uint64Var(&r.snapshotEvery, "snapshot-every", keep.DefaultSnapshotEvery,
		"write a snapshot of the state into the log's directory, or the bucket beside its stream, after this many "+
			"entries; 0: not by number")
	durationVar(f, &r.snapshotAge, "snapshot-age", time.Hour,
		"write a snapshot after this time if the log has grown; 0: not by time")
	r.classes.register(cmd)
	r.electionFlags()
	var sections cliflag.NamedFlagSets
	options.BindLeaderElectionFlags(&r.election, sections.FlagSet("leader election"))
	r.serving.AddFlags(&sections)
	for _, section := range sections.Order {
		f.AddFlagSet(sections.FlagSets[section])
	}
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	_ = cmd.MarkFlagDirname("log")
}

// electionFlags sets the defaults of the flags of leader election from the default configuration. A recorder holds no
// lease unless it is asked to: it needs no right to write then.
func (r *running) electionFlags() {
	r.election = framework.DefaultConfig().LeaderElection
	if r.records {
		r.election.LeaderElect, r.election.ResourceName = false, recorderLease
	}
}

func (r *running) run(ctx context.Context) error {
	if r.log == "" {
		return usageError{errors.New("--log is needed: the directory where the log is kept, or memory")}
	}
	if err := r.classes.check(); err != nil {
		return err
	}
	if r.shadow {
		r.asShadow()
	}
	if r.snapshotAge < 0 || r.grace < 0 {
		return usageError{errors.New("--snapshot-age and --shutdown-grace must not be below zero")}
	}
	if err := errors.Join(r.queuePolicy.check(), r.retention.check()); err != nil {
		return err
	}
	if errs := r.serving.Apply(); len(errs) > 0 {
		return usageError{utilerrors.NewAggregate(errs)}
	}
	defer klog.Flush()
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))
	cfg, err := r.configuration()
	if err != nil {
		return err
	}
	process, err := r.newProcess(cfg)
	if err != nil {
		return err
	}
	return process.run(ctx)
}

// configuration reads the configuration, and sets the given flags in it.
func (r *running) configuration() (*framework.Config, error) {
	opts := framework.LiveOptions{
		RaiseZeroBackoff: r.raiseBackoff, Note: func(message string) { slog.Info(message) },
		FeatureGates: gates.OfProcess(), // the gates of the flags, which are in force
	}
	if r.records {
		opts.SchedulerName = corev1.DefaultSchedulerName
	}
	cfg, err := loadConfig(r.registry, r.config, r.queuePolicy, opts)
	if err != nil {
		return nil, err
	}
	cfg.Recording = r.records
	if r.kubeconfig != "" {
		cfg.ClientConnection.Kubeconfig = r.kubeconfig
	}
	given, e := r.flags.Flags().Changed, &cfg.LeaderElection
	if r.records { // the configuration's lease is the recorded scheduler's
		*e = r.election
	}
	for flag, set := range map[string]func(){ // any order: each sets a field of its own
		"leader-elect":                    func() { e.LeaderElect = r.election.LeaderElect },
		"leader-elect-lease-duration":     func() { e.LeaseDuration = r.election.LeaseDuration },
		"leader-elect-renew-deadline":     func() { e.RenewDeadline = r.election.RenewDeadline },
		"leader-elect-retry-period":       func() { e.RetryPeriod = r.election.RetryPeriod },
		"leader-elect-resource-lock":      func() { e.ResourceLock = r.election.ResourceLock },
		"leader-elect-resource-name":      func() { e.ResourceName = r.election.ResourceName },
		"leader-elect-resource-namespace": func() { e.ResourceNamespace = r.election.ResourceNamespace },
	} {
		if given(flag) {
			set()
		}
	}
	if r.log == inMemory && len(r.archives) > 0 {
		return nil, usageError{fmt.Errorf("--archive with --log %s: nothing of it is archived", inMemory)}
	}
	return cfg, r.checkStream()
}

// checkStream refuses flags about the files of a log, if it is in NATS JetStream.
func (r *running) checkStream() error {
	if !logs.InStream(r.log) {
		return nil
	}
	for _, flag := range []string{"archive", "segment-size", "retain", "retain-size", "retain-to"} {
		if r.flags.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s with --log %s: it is about a log's files, and there are none", flag,
				logs.Shown(r.log))}
		}
	}
	return nil
}
