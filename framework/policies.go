package framework

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/queue"
)

// PolicyView is what a lane policy or a victim policy may look at. It shows the state after the last entry of the log.
// All of it is read only.
type PolicyView interface {
	// Now returns the time of the entry: the only clock there is.
	Now() time.Time
	// SnapshotSharedLister shows the nodes, by name, with the pods that are bound, being bound, or held by Permit there,
	// and what these request.
	SnapshotSharedLister() fwk.SharedLister
	// SharedInformerFactory has the listers of other objects, with the fields that the log keeps of them.
	SharedInformerFactory() informers.SharedInformerFactory
	// PriorityOf returns the priority that counts for a pod: that of its gang if the gang has one of its own.
	PriorityOf(pod *v1.Pod) int32
	// GangOf returns the gang that a pod is a member of; ok is false if it is in none.
	GangOf(pod *v1.Pod) (_ Gang, ok bool)
}

// Gang is a PodGroup as policies see it.
type Gang struct {
	Namespace, Name string
	// Minimum is how many members must have nodes together; 0 while the PodGroup is not known.
	Minimum int
	// Members is how many pods name the gang, and Placed how many of them are bound or being bound.
	Members, Placed int
}

// NewLanePolicy makes a lane policy. args is the argument queuePolicyArgs of Coscheduling, nil if there is none.
// Profiles that name the same policy share it, and must give it the same args. A configuration has its own policies:
// they are made again with the next one.
type NewLanePolicy func(args json.RawMessage, view PolicyView) (queue.LanePolicy, error)
