package keep

import (
	"errors"
	"fmt"
	"os"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// explainStop adds advice to an error that ends a simulation.
func (o *Options) explainStop(err error) error {
	var appending *engine.AppendError
	var other *sim.OtherSimulationError
	var displaced *eventlog.DisplacedError
	var superseded *eventlog.SupersededError
	var archived *eventlog.ArchivedError
	var damaged *eventlog.DamagedError
	var lost *snapshot.LostError
	switch {
	case errors.As(err, &damaged) && damaged.Seq > 1 && !errors.As(err, &lost): // of which logs has said it
		return logs.AdviseOnDamage(logs.Shown(o.Log), 1, err)
	case errors.As(err, &archived) && len(archived.Dirs) > 0:
		return fmt.Errorf(
			"cannot resume: the whole log is needed to make the cluster again, but %w; say with --archive where they "+
				"are now", err)
	case errors.As(err, &other):
		return logs.Refuse("cannot resume: %w; give the nodes, workload, configuration, --until and --requeue "+
			"that it was begun with", err)
	case errors.As(err, &superseded) && errors.As(err, &appending):
		return fmt.Errorf("%w\nAnother simulation has taken the log over. Nothing that was decided here in entries "+
			"%d and on "+
			"has left this process", err, appending.First)
	case errors.As(err, &displaced) && errors.As(err, &appending):
		return fmt.Errorf("%w\nNothing that was decided in entries %d and on has left this process, and every entry "+
			"before them is safe in the files that were there. Then run the same command with --resume",
			err, appending.First)
	case errors.As(err, &appending):
		return fmt.Errorf(
			"%w\nNothing that was decided in entries %d and on has left this process, and every entry before them is "+
				"safe. %s",
			err, appending.First, o.advice())
	case logs.IsDiskError(err) && o.Log == "":
		return fmt.Errorf(
			"%w\nNo log was kept (--log), so the simulation cannot go on from here. See that what --effects writes "+
				"to is in order and has room, then run the same command again", err)
	case logs.IsDiskError(err):
		return fmt.Errorf("%w\nNothing of what stands in the log is lost. %s", err, o.advice())
	}
	return err
}

// advice is the advice after a failure of the disk.
func (o *Options) advice() string {
	if logs.InStream(o.Log) {
		return "See that the NATS servers run and have room, then run the same command with --resume"
	}
	const advice = "See that the disk is in order and has room, then run the same command"
	if _, err := os.Stat(o.Log); o.Resume || err == nil {
		return advice + " with --resume"
	}
	return advice + " again"
}
