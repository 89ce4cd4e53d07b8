package framework

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/queue"
)

// PolicyView is the read-only view of the state for a lane policy or a victim policy. It shows the state after the last
// entry of the log.
type PolicyView interface {
	// Now returns the time of the entry: the only clock there is.
	Now() time.Time
	// SnapshotSharedLister shows the nodes, by name, with the pods that are bound, being bound, or held by Permit
	// there, and what these request.
	SnapshotSharedLister() fwk.SharedLister
	// SharedInformerFactory has the listers of other objects, with the fields that the log keeps of them.
	SharedInformerFactory() informers.SharedInformerFactory
	// PriorityOf returns the priority that counts for a pod: its gang's, if the gang has one of its own.
	PriorityOf(pod *v1.Pod) int32
	// GangOf returns the gang that a pod is a member of; ok is false if it is in none.
	GangOf(pod *v1.Pod) (_ Gang, ok bool)
}

// Gang is a PodGroup as policies see it.
type Gang struct {
	Namespace, Name string
	// Minimum is the number of members that must have nodes together; 0 while the PodGroup is not known.
	Minimum int
	// Members is the number of pods that name the gang. Placed is the number of them that are bound or being bound.
	Members, Placed int
}

// A VictimPolicy decides which pods may be preempted for which, and which of them go first. It answers from its
// arguments and from the PolicyView that it was made with, and has no clock, no random number and no memory.
type VictimPolicy interface {
	// MayPreempt reports whether the victim may be evicted to make room for the preemptor. It also decides which
	// nominated pods give up the room that is kept for them.
	MayPreempt(p Preemptor, v *Victim) bool
	// Compare orders victims: a negative number if a is more important than b and goes later. Ties go by name.
	Compare(a, b *Victim) int
	// Below returns a priority such that only pods below it can be victims; ok is false if there is no such bound. Fast
	// paths use it to skip plans that must fail: without it they make the plan.
	Below(p Preemptor) (priority int32, ok bool)
}

// VictimSets may be implemented by a VictimPolicy with conditions on victims together.
type VictimSets interface {
	// Accepts reports whether all these victims may be evicted for the preemptor. Preemption calls it with the final
	// victims, after it has tried to keep each of them on its node. If it returns false, preemption does not use that
	// node. For a gang it drops the whole choice of victims.
	Accepts(p Preemptor, victims []*Victim) bool
}

// Preemptor is the pod that other pods are preempted for.
type Preemptor struct {
	// Pod is the pod whose cycle it is.
	Pod *v1.Pod
	// Priority is the priority that counts for it.
	Priority int32
}

// Victim is a pod, or the pods of a gang whose disruptionMode is all: they are evicted together.
type Victim struct {
	Pods []*v1.Pod
	// Priority is the highest priority that counts for one of them, and Started the earliest time at which one started.
	Priority int32
	Started  time.Time
	// Kind says what they are a part of. More important kinds are greater.
	Kind VictimKind
}

// VictimKind is the kind of object that a victim belongs to.
type VictimKind int

// The kinds of victims. A pod of a gang counts as GangVictim, whether or not it is evicted by itself.
const (
	PodVictim VictimKind = 1 + iota
	GangVictim
	CompositeVictim
)

// NewVictimPolicy makes a victim policy for a profile. args is the argument victimPolicyArgs of Coscheduling, nil if
// there is none.
type NewVictimPolicy func(args json.RawMessage, view PolicyView) (VictimPolicy, error)

// NewLanePolicy makes a lane policy. args is the argument queuePolicyArgs of Coscheduling, nil if there is none.
// Profiles that name the same policy share it, and must give it the same args. A configuration has its own policies:
// they are made again with the next one.
type NewLanePolicy func(args json.RawMessage, view PolicyView) (queue.LanePolicy, error)
