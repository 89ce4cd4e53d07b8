package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
)

// Scheduler is a scheduler as a simulation drives it. Stepping and Advancing make one from an engine.
type Scheduler interface {
	// Step adds inputs at virtual time now, and decides until no work is left. It is called without inputs when the
	// time of the last Ready's Wake has come. now never decreases. The inputs' objects share parts with each other and
	// must not be changed. Decisions need not be durable when the Ready has their effects: in a virtual cluster,
	// effects only lead to later inputs. But the result of the simulation must not be published before everything is
	// durable.
	//
	// The simulation uses Effects and Wake of the Ready. It carries out effects at once, so there are none left to
	// withdraw.
	Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (engine.Ready, error)
	View
}

// View is the part of a scheduler's state, after its last step, that reports and timelines read.
type View interface {
	// GangAttempts returns the number of times that the scheduler began to place the gang, together with the gangs
	// admitted with it. PodAttempts is the same for a pod without a gang. Both are 0 for one that is not in its queue.
	GangAttempts(namespace, name string) int
	PodAttempts(namespace, name string) int
	// Priority returns the priority that the scheduler gives the pod, or its gang if it is in one; ok is false for an
	// unknown pod.
	Priority(uid types.UID) (priority int32, ok bool)
	// Reservations returns the present reservations.
	Reservations() []report.Reservation
}

// Stepping returns a Scheduler of an engine whose steps wait until everything is durable.
func Stepping(e *engine.Engine) Scheduler { return driven{viewOf(e.Machine), e.Step} }

// Advancing returns a Scheduler from an engine that continues while its decisions are being made durable. The engine
// must release effects when they are decided (engine.WhenDecided). At the end of the simulation the caller has to wait
// for the disk (engine.Engine.Sync).
func Advancing(e *engine.Engine) Scheduler { return driven{viewOf(e.Machine), e.Advance} }

// driven is an engine as a Scheduler.
type driven struct {
	View
	step func(context.Context, time.Time, []eventlog.Payload) (engine.Ready, error)
}

// Step implements Scheduler.
func (d driven) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (engine.Ready, error) {
	return d.step(ctx, now, inputs)
}

// viewOf is the View of the Machine that the function returns.
type viewOf func() *scheduler.Machine

// GangAttempts implements View.
func (machine viewOf) GangAttempts(namespace, name string) int {
	return attempts(machine().GangEntity(namespace, name))
}

// PodAttempts implements View.
func (machine viewOf) PodAttempts(namespace, name string) int {
	if q := machine().Queue(); q != nil {
		return attempts(q.Get(fwk.PodKey(namespace, name)))
	}
	return 0
}

// Priority implements View.
func (machine viewOf) Priority(uid types.UID) (int32, bool) {
	state := machine().Cluster()
	p := state.Pods().Get(uid)
	if p == nil {
		return 0, false
	}
	return state.Gangs().PriorityOf(p.Object), true
}

func attempts(e *queue.Entity) int {
	if e == nil {
		return 0
	}
	return e.Attempts()
}

// Reservations implements View.
func (machine viewOf) Reservations() []report.Reservation {
	m := machine()
	var all []report.Reservation
	for _, kept := range m.Reservations() {
		r := report.Reservation{
			Group: kept.Key.Namespace + "/" + kept.Key.Name, From: kept.At.Std(),
			Amount: map[corev1.ResourceName]int64{},
		}
		longest, endless := time.Duration(0), false
		for _, place := range kept.Places {
			p := m.Cluster().Pods().Get(place.UID)
			if p == nil {
				continue
			}
			// any order: sums
			for name, q := range resourcehelper.PodRequests(p.Object, resourcehelper.PodResourcesOptions{}) {
				r.Amount[name] += report.Units(name, q)
			}
			longest, endless = max(longest, p.Life()), endless || p.Life() == 0
		}
		if !endless {
			r.Until = r.From.Add(longest)
		}
		all = append(all, r)
	}
	return all
}
