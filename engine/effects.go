package engine

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Effect is an effect with all data to carry it out. None of the data that it points to may be changed.
type Effect struct {
	scheduler.Effect
	// Earlier says that the decision is of an earlier epoch, which may have carried it out.
	Earlier bool
	// Pod is the pod of a Bind or an Ask as the scheduler knows it; nil if it is gone.
	Pod *v1.Pod

	// The rest of the data for a Bind.

	// Claims are the names of the ResourceClaims that must be reserved for the pod before it is bound.
	Claims []string
	// ClaimUIDs are the UIDs of Claims by name, as the scheduler knows them. They count for claims that the decision
	// leaves out, because they had devices already.
	ClaimUIDs map[string]types.UID
	// GroupClaims are the Claims that are reserved for the pod's PodGroup and not for the pod, by name.
	GroupClaims map[string]resourcev1.ResourceClaimConsumerReference
	// Binding has the calls of plugins in the pod's binding cycle; nil if no plugin takes part.
	Binding BindingCycle

	// The rest of the data for an Evict.

	// MakesRoom says that pods wait for the room. Without them the eviction must never be given up.
	MakesRoom bool
	// Decision is the decision that asks for the eviction; nil if an earlier epoch made it.
	Decision *eventlog.Decision
	// Scheduler is the name of the scheduler that the preemptor names; "" if that is not known.
	Scheduler string

	// The rest of the data for an Ask.

	// Pods are the pods that extenders may name as victims, by candidate; nil unless the question is about preemption.
	Pods map[string][]*v1.Pod
}

// BindingCycle has the calls of plugins in the binding cycle of a pod. The methods are called one after the other, each
// at most once in an attempt to bind the pod.
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

// releases gives out the effects of an epoch, each once.
type releases struct {
	first    uint64     // the entry that begins the epoch
	released uint64     // effects up to this entry have been given out
	evicting []eviction // of later entries, in their order
}

// eviction is a decision that evicts pods and whose effects were not given out yet.
type eviction struct {
	seq      uint64
	decision *eventlog.Decision
}

// note notes that a decision of this epoch evicts pods.
func (r *releases) note(seq uint64, d *eventlog.Decision) {
	r.evicting = append(r.evicting, eviction{seq, d})
}

// upTo returns the effects up to an entry that were not given out yet.
func (r *releases) upTo(m *scheduler.Machine, until uint64) []Effect {
	asked := m.EffectsAfter(r.released)
	n := len(asked)
	for n > 0 && asked[n-1].Seq > until {
		n--
	}
	r.released = until
	if n == 0 {
		return nil
	}
	effects := make([]Effect, n)
	var onNodes map[string][]*v1.Pod
	for i := range effects {
		if asked[i].Kind == scheduler.Ask && onNodes == nil {
			onNodes = map[string][]*v1.Pod{}
		}
		r.complete(m, &effects[i], asked[i], onNodes)
	}
	r.evicting = slices.DeleteFunc(r.evicting, func(known eviction) bool { return known.seq <= until })
	return effects
}

// withdrawals returns the evictions that were given out and that nobody waits for any more.
func (r *releases) withdrawals(m *scheduler.Machine) (all []Withdrawal) {
	for _, x := range m.Unwanted() {
		if x.Seq <= r.released {
			all = append(all, Withdrawal{UID: x.UID, Seq: x.Seq})
		}
	}
	return all
}

// complete adds objects of the state to an effect, so that it can be carried out without the state. onNodes has the
// lists of pods that several questions share, see Machine.PodsAt.
func (r *releases) complete(m *scheduler.Machine, to *Effect, asked scheduler.Effect, onNodes map[string][]*v1.Pod) {
	to.Effect, to.Earlier = asked, asked.Seq < r.first
	switch asked.Kind {
	case scheduler.Bind:
		completeBind(m, to)
	case scheduler.Evict:
		to.MakesRoom = m.MakesRoom(asked)
		if to.Decision = r.decisionOf(asked.Seq); to.Decision != nil {
			if p := m.Cluster().Pods().Get(to.Decision.UID); p != nil {
				to.Scheduler = p.Object.Spec.SchedulerName
			}
		}
	case scheduler.Ask:
		if p := m.Cluster().Pods().Get(asked.UID); p != nil {
			to.Pod = p.Object
		}
		to.Pods = m.PodsAt(asked.Candidates, onNodes)
	}
}

func completeBind(m *scheduler.Machine, to *Effect) {
	state := m.Cluster()
	if p := state.Pods().Get(to.UID); p != nil {
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
	if cycle := m.BindingCycle(to.UID); cycle != nil {
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

// decisionOf returns the decision at entry seq; nil if it evicts no pod or was made before Open.
func (r *releases) decisionOf(seq uint64) *eventlog.Decision {
	i, known := slices.BinarySearchFunc(r.evicting, seq, func(d eviction, seq uint64) int {
		return cmp.Compare(d.seq, seq)
	})
	if !known {
		return nil
	}
	return r.evicting[i].decision
}
