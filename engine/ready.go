package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Ready is everything that has become due since the call before: what is durable, what must be done, what need not be
// done any more, and when the engine must be called again. Each call of Step, Advance, Note, Await and Sync returns
// one. Nothing of it comes again in a later Ready, except Withdrawals. The package comment has the contract with the
// caller.
//
// For example, Advance takes in two pods that fit, as entries 7 and 8, and decides on them, as entries 9 and 10. While
// these are being written, its Ready is empty. The next one has a Commit with entries 7 to 10, and two Effects that
// bind the pods.
type Ready struct {
	// Commits are the appends that have succeeded, in order.
	Commits []Commit
	// Effects are the effects that must be carried out, in the order of their decisions. Every one is of a decision in
	// Commits, or in an earlier Ready's, or from before Open. Only with WhenDecided may the decision be in a later
	// one's.
	Effects []Effect
	// Withdrawals are the evictions, of this Ready or an earlier one, that nobody waits for any more. A withdrawal
	// comes with every Ready until the result of the eviction is taken in.
	Withdrawals []Withdrawal
	// Wake is when time alone will make work; the zero time if it never will.
	Wake time.Time
	// Busy says that the call stopped at Options.Decisions: there may be more to decide now.
	Busy bool
	// State is the state after the last entry that was taken in, which may not be durable yet. The driver itself needs
	// nothing of it. It is for whoever shows people what was decided.
	State *scheduler.Machine
}

// A Commit is what one append made durable. Where one Commit ends and the next one begins depends on the speed of the
// disk. Only the entries, one after the other, are the same in every run.
type Commit struct {
	// Entries are the entries of the append, at least one. The slice is the caller's, the payloads are the Machine's.
	Entries []eventlog.Entry
	// At is when the append had succeeded, by Options.Clock; zero without one.
	At time.Time
}

// Last returns the sequence number of the last entry.
func (c Commit) Last() uint64 { return c.Entries[len(c.Entries)-1].Seq }

// Effect is an effect with everything that is needed to carry it out. None of what it points to may be changed.
type Effect struct {
	scheduler.Effect
	// Earlier says that the decision is of an earlier epoch, which may have carried it out.
	Earlier bool
	// Pod is the pod of a Bind or an Ask as the scheduler knows it; nil if it is gone.
	Pod *v1.Pod

	// The rest of what a Bind needs.

	// Claims are the names of the ResourceClaims that must be reserved for the pod before it is bound.
	Claims []string
	// ClaimUIDs are the UIDs of Claims by name, as the scheduler knows them. They count where the decision says nothing
	// of a claim, because it had devices already.
	ClaimUIDs map[string]types.UID
	// GroupClaims are, by name, those of Claims that are reserved for the pod's PodGroup and not for the pod.
	GroupClaims map[string]resourcev1.ResourceClaimConsumerReference
	// Binding is what plugins do in the pod's binding cycle; nil if no plugin takes part.
	Binding BindingCycle

	// The rest of what an Evict needs.

	// MakesRoom says that pods wait for the room. Without them the eviction must never be given up.
	MakesRoom bool
	// Decision is the decision that asks for the eviction; nil if an earlier epoch made it.
	Decision *eventlog.Decision
	// Scheduler is the name of the scheduler that the preemptor names; "" if that is not known.
	Scheduler string

	// The rest of what an Ask needs.

	// Pods are the pods that extenders may name as victims, by candidate; nil unless the question is about preemption.
	Pods map[string][]*v1.Pod
}

// BindingCycle is what plugins do in the binding cycle of a pod. The methods are called one after the other, each at
// most once in an attempt to bind the pod.
type BindingCycle interface {
	// Before calls the plugins that come before the bind. A status that is not nil ends the bind.
	Before(ctx context.Context, together framework.Together) *fwk.Status
	// Bind lets one plugin bind the pod, and names it. "" says that none has: the caller binds the pod.
	Bind(ctx context.Context) (by string, status *fwk.Status)
	// PostBind tells the plugins that the pod is bound.
	PostBind(ctx context.Context)
}

// Withdrawal names an eviction that must not be sent any more, unless it was sent already.
type Withdrawal struct {
	// UID is the pod's, Seq the decision that asked for the eviction.
	UID types.UID
	Seq uint64
}

// ready waits until entry seq is durable, and returns what has become due.
func (e *Engine) ready(seq uint64) (Ready, error) {
	if err := e.writer.await(seq); err != nil {
		return e.stop(err)
	}
	commits, durable, err := e.writer.collect()
	r := Ready{Commits: commits, Busy: e.busy, State: e.machine}
	if err != nil {
		e.failed = err
		return r, err
	}
	r.Effects = e.release(durable)
	for _, x := range e.machine.Unwanted() {
		if x.Seq <= e.released {
			r.Withdrawals = append(r.Withdrawals, Withdrawal{UID: x.UID, Seq: x.Seq})
		}
	}
	if at, ok := e.machine.Wake(); ok {
		r.Wake = at
	}
	return r, nil
}

// stop notes why nothing more may be done, and returns what is durable.
func (e *Engine) stop(why error) (Ready, error) {
	e.failed = why
	commits, _, _ := e.writer.collect() // why has the writer's error already, or Close returns it
	return Ready{Commits: commits, State: e.machine}, why
}

// release returns the effects up to the last durable entry, or to the last of all, that were not given out yet.
func (e *Engine) release(durable uint64) []Effect {
	until := durable
	if e.opts.Release == WhenDecided {
		until = e.machine.Seq()
	}
	asked := e.machine.EffectsAfter(e.released)
	n := len(asked)
	for n > 0 && asked[n-1].Seq > until {
		n--
	}
	e.released = until
	if n == 0 {
		return nil
	}
	effects := make([]Effect, n)
	var onNodes map[string][]*v1.Pod
	for i := range effects {
		if asked[i].Kind == scheduler.Ask && onNodes == nil {
			onNodes = map[string][]*v1.Pod{}
		}
		e.complete(&effects[i], asked[i], onNodes)
	}
	e.evicting = slices.DeleteFunc(e.evicting, func(known eviction) bool { return known.seq <= until })
	return effects
}

// complete adds to an effect what the state knows. onNodes has the lists of pods that several questions share, see
// Machine.PodsAt.
func (e *Engine) complete(to *Effect, asked scheduler.Effect, onNodes map[string][]*v1.Pod) {
	to.Effect, to.Earlier = asked, asked.Seq < e.first
	switch asked.Kind {
	case scheduler.Bind:
		e.completeBind(to)
	case scheduler.Evict:
		to.MakesRoom = e.machine.MakesRoom(asked)
		if to.Decision = e.decisionOf(asked.Seq); to.Decision != nil {
			if p := e.machine.Cluster().Pod(to.Decision.UID); p != nil {
				to.Scheduler = p.Object.Spec.SchedulerName
			}
		}
	case scheduler.Ask:
		if p := e.machine.Cluster().Pod(asked.UID); p != nil {
			to.Pod = p.Object
		}
		to.Pods = e.machine.PodsAt(asked.Candidates, onNodes)
	}
}

func (e *Engine) completeBind(to *Effect) {
	state := e.machine.Cluster()
	if p := state.Pod(to.UID); p != nil {
		to.Pod, to.Claims, to.GroupClaims = p.Object, claimsOf(p.Object), state.Devices().GroupClaims(p.Object)
		if len(to.Claims) > 0 {
			to.ClaimUIDs = state.Devices().UIDs(p.Object.Namespace, to.Claims)
		}
	}
	for i := range to.Devices { // also of a pod that is gone
		if claim := to.Devices[i].Claim; !slices.Contains(to.Claims, claim) {
			to.Claims = append(to.Claims, claim)
		}
	}
	if cycle := e.machine.BindingCycle(to.UID); cycle != nil {
		to.Binding = cycle
	}
}

// claimsOf returns the names of the ResourceClaims that the pod uses, each once.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	return names
}

// eviction is a decision that evicts pods and whose effects were not given out yet.
type eviction struct {
	seq      uint64
	decision *eventlog.Decision
}

// decisionOf returns the decision at entry seq; nil if it evicts no pod or was made before Open.
func (e *Engine) decisionOf(seq uint64) *eventlog.Decision {
	i, known := slices.BinarySearchFunc(e.evicting, seq, func(d eviction, seq uint64) int {
		return cmp.Compare(d.seq, seq)
	})
	if !known {
		return nil
	}
	return e.evicting[i].decision
}
