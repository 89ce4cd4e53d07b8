package index

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Key represents a name that entries have. Two names may have the same Key. The numbers are stored on disk.
type Key uint32

// The kinds of names. They are stored on disk, as a part of the keys.
const (
	kindPod       = 'p' // namespace and name, of a pod that an entry brings
	kindUID       = 'u' // of a pod
	kindGroup     = 'g' // namespace and name of a gang, or of its PodGroup
	kindNode      = 'n' // the name of a node that an entry brings or takes away
	kindEvictions = 'e' // the number of a decision with evictions, in the entries with their results
	kindMissing   = 'm'
	kindBarrier   = 'b'
)

// Pod is the key of the entries that bring a pod of that name.
func Pod(name types.NamespacedName) Key { return keyOf(kindPod, name.Namespace, name.Name) }

// UID is the key of the entries that bring the pod or take it away, and of decisions on it. It is also the key of
// decisions that allow, reject, evict, nominate, place or activate it, and of the results of its binds and evictions.
func UID(uid types.UID) Key { return keyOf(kindUID, string(uid), "") }

// Group is the key of entries about a gang. They bring a PodGroup of the name or a pod that names it, or take the
// PodGroup away. Decisions on pods of the gang have the key too, and so do entries that bring a PodGroup or
// CompositePodGroup below a CompositePodGroup of the name.
func Group(name types.NamespacedName) Key { return keyOf(kindGroup, name.Namespace, name.Name) }

// Node is the key of the entries that bring the node or take it away.
func Node(name string) Key { return keyOf(kindNode, name, "") }

// Evictions is the key of the entries with the results of the evictions of decision seq.
func Evictions(seq uint64) Key { return keyOf(kindEvictions, strconv.FormatUint(seq, 10), "") }

// Missing is the key of the entries that say that changes before them may be missing.
func Missing() Key { return keyOf(kindMissing, "", "") }

// Barrier is the key of the entries that may concern any gang or pod. They begin an epoch, bring CompositePodGroups or
// take them away, or make gangs name each other.
func Barrier() Key { return keyOf(kindBarrier, "", "") }

// keyOf is FNV-1a over the kind and the two names, folded to 32 bits.
func keyOf(kind byte, a, b string) Key {
	const offset, prime = 14695981039346656037, 1099511628211
	h := (uint64(offset) ^ uint64(kind)) * prime
	for i := range len(a) {
		h = (h ^ uint64(a[i])) * prime
	}
	h = (h ^ '/') * prime
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * prime
	}
	return Key(h>>32) ^ Key(h)
}

// keys calls add with the keys of the entry. It may add a key more than once.
func keys(e *eventlog.Entry, add func(Key)) {
	switch p := e.Payload.(type) {
	case *eventlog.EpochStarted:
		add(Barrier())
	case *eventlog.Upserted:
		upserted(p, add)
	case *eventlog.Deleted:
		deleted(p, add)
	case *eventlog.Decision:
		decision(p, add)
	case *eventlog.BindResult:
		add(UID(p.UID))
	case *eventlog.EvictResult:
		add(UID(p.UID))
		add(Evictions(p.Decision))
	case *eventlog.ExtenderResult:
		add(UID(p.UID))
	case *eventlog.Watched:
		if len(p.Missing) > 0 {
			add(Missing())
		}
	}
}

func upserted(p *eventlog.Upserted, add func(Key)) {
	name := types.NamespacedName{Namespace: p.Object.GetNamespace(), Name: p.Object.GetName()}
	if cluster.NamesOthers(p.Object) {
		add(Barrier())
	}
	if parent, ok := cluster.ParentName(p.Object); ok {
		add(Group(parent))
	}
	switch {
	case p.Resource == eventlog.Pods:
		add(Pod(name))
		add(UID(p.Object.GetUID()))
		if pod, ok := p.Object.(*v1.Pod); ok {
			if group, ok := cluster.GroupName(pod); ok {
				add(Group(group))
			}
		}
	case p.Resource == eventlog.Nodes:
		add(Node(name.Name))
	case p.Resource == eventlog.CompositePodGroups:
		add(Barrier())
	case cluster.DeclaresGroups(p.Resource):
		add(Group(name))
	}
}

func deleted(p *eventlog.Deleted, add func(Key)) {
	switch {
	case p.Resource == eventlog.Pods:
		add(UID(p.UID))
	case p.Resource == eventlog.Nodes:
		add(Node(p.Name))
	case p.Resource == eventlog.CompositePodGroups:
		add(Barrier())
	case cluster.DeclaresGroups(p.Resource):
		add(Group(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}))
	}
}

func decision(d *eventlog.Decision, add func(Key)) {
	add(UID(d.UID))
	if d.Group != "" {
		add(Group(types.NamespacedName{Namespace: d.Namespace, Name: d.Group}))
	}
	for _, uids := range [][]types.UID{d.Allowed, d.Rejected, d.Victims, d.Activated} {
		for _, uid := range uids {
			add(UID(uid))
		}
	}
	for i := range d.Approvals {
		add(UID(d.Approvals[i].UID))
	}
	for i := range d.Places {
		add(UID(d.Places[i].UID))
	}
	for i := range d.Nominations {
		add(UID(d.Nominations[i].UID))
	}
	for i := range d.Questions {
		for _, uid := range d.Questions[i].UIDs {
			add(UID(uid))
		}
	}
}
