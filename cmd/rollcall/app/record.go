package app

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/kube/serving"
	"github.com/rollcall-sched/rollcall/kube/watch"
)

// recorderLease is the lease of recorders that share a log.
const recorderLease = "rollcall-recorder"

func newRecord(registry framework.Registry) *cobra.Command {
	r := &running{registry: registry, serving: serving.NewOptions(), records: true,
		grace: time.Second} // nothing is under way
	cmd := &cobra.Command{
		Use:   "record --log DIR|nats://HOST/STREAM",
		Short: "Record a cluster that others schedule",
		Long: `Record a Kubernetes cluster that kube-scheduler or another scheduler places the
pods of. The recorder lists and watches only: it decides nothing, and changes
nothing in the cluster. It needs the rights of deploy/overlays/recorder.

The log has what the scheduler of a cluster sees: nodes, pods, groups, volumes,
devices and budgets, as they come, change and go. All commands that read a log
work on it, beside the recorder and later: "rollcall events DIR", "rollcall
explain DIR pod NS/NAME", "rollcall report DIR". They say what others have done,
and what Rollcall would find in their place; the log has no decisions, and no
answer claims one.

--config takes the KubeSchedulerConfiguration of the scheduler that is recorded.
It is used for answers about pods that wait. Without it they are tried with
kube-scheduler's default plugins.

The log is kept as "rollcall run" keeps it: --retain-size, snapshots, a stream
of NATS JetStream. Start several recorders with a log in a stream and with
--leader-elect: one writes, the others take over. That needs the right to write
a Lease, and nothing else.`,
		Example: `  rollcall record --kubeconfig ~/.kube/config --log cluster.db
  rollcall explain cluster.db pod default/web-0
  rollcall events cluster.db --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer headroom.Keep()()
			return r.run(cmd.Context())
		},
	}
	r.flags = cmd
	cmd.Flags().StringVar(&r.config, "config", "", "the KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) "+
		"of the scheduler that is recorded; default: kube-scheduler's")
	r.register(cmd)
	return cmd
}

// role is the name of the process in messages.
func (r *running) role() string {
	switch {
	case r.shadow:
		return "shadow"
	case r.records:
		return "recorder"
	}
	return "scheduler"
}

// stage is the name of a stage in messages.
func (r *running) stage(stage live.Stage) string {
	if r.records && stage == live.Scheduling {
		return "recording"
	}
	return stage.String()
}

// recorded finds where a recorder continues its watches: behind the entries before the one that began its epoch. It is
// the zero value for a scheduler.
func (p *clusterProcess) recorded(began uint64, log closing) (watch.Recorded, error) {
	if !p.running.records {
		return watch.Recorded{}, nil
	}
	read := func(from uint64) iter.Seq2[eventlog.Entry, error] { return log.Read(context.Background(), from) }
	out, err := watch.ReadRecorded(log.First(), began-1, read)
	if err != nil {
		return out, fmt.Errorf("find where the record ends: %w", err)
	}
	return out, nil
}

// nothingToCarry is the live.Effects of a recorder, which decides nothing.
type nothingToCarry struct{}

// Carry implements live.Effects.
func (nothingToCarry) Carry(engine.Ready) {}

// Finished implements live.Effects.
func (nothingToCarry) Finished() <-chan struct{} { return nil }

// Take implements live.Effects.
func (nothingToCarry) Take() []eventlog.Payload { return nil }

// Drain implements live.Effects.
func (nothingToCarry) Drain(context.Context) error { return nil }
