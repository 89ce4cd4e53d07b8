package scheduler

import (
	"encoding/binary"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// EffectKind says what an Effect asks for.
type EffectKind uint8

const (
	// Bind asks to bind the pod to Node; its result comes back as a BindResult entry with the decision's number.
	Bind EffectKind = 1
	// Evict asks to delete the pod gracefully; its result comes back as an EvictResult entry with the decision's
	// number, and its deletion as a Deleted entry. Where a pod is gone at once, the Deleted entry alone comes.
	Evict EffectKind = 2
	// Ask asks HTTP extenders which of Nodes are for the pod, or, if there are Candidates, about preemption there; what
	// they answer comes back as an ExtenderResult entry with the decision's number.
	Ask EffectKind = 3
	// GiveBack asks to take back the claims that are reserved for a PodGroup of which no pod has a node, with their
	// devices. Namespace, Name and UID are the PodGroup's, Devices the claims, by name and UID alone. It ends when the
	// claims are logged so, and when a pod of the PodGroup has a node: it must not be carried out once that pod is
	// being bound.
	GiveBack EffectKind = 4
)

// Effect is a request of a decision to the outside world. It may be carried out only once the entry Seq is durable.
// After a restart it may be requested again.
type Effect struct {
	Kind EffectKind
	// Seq is the decision that asks for it.
	Seq uint64
	// Namespace, Name and UID are the pod's, of GiveBack the PodGroup's; the UID is a precondition of the call.
	Namespace, Name string
	UID             types.UID
	// Node is the node to which Bind binds the pod.
	Node string
	// Volumes are the claims that must be bound or provisioned before the pod is.
	Volumes []eventlog.VolumeClaim
	// Devices are the claims that must be allocated before the pod is bound. They are kept with the pod. If the pod is
	// gone, they are the claims that may have been allocated. Their devices are free only after the bind's result is
	// known.
	Devices []eventlog.DeviceClaim
	// Nodes are the nodes that Ask is about, by name. For a question about preemption, Candidates are the nodes where
	// evictions would make room. They must not be changed.
	Nodes      []string
	Candidates []eventlog.Candidate
}

// effectKey tells effects apart: a pod, or a PodGroup, has at most one of each kind.
type effectKey struct {
	uid  types.UID
	kind EffectKind
}

// effects are the outstanding effects in the order of their decisions. Effects that are done leave gaps until half of
// the slots are gaps.
type effects struct {
	slots []Effect
	at    map[effectKey]int
	// groups are the PodGroups whose claims are to be given back.
	groups groupSet
	// evicting are the pods that Evict is about.
	evicting map[types.UID]struct{}
	evictions
}

func newEffects() effects {
	return effects{at: map[effectKey]int{}, groups: groupSet{}, evicting: map[types.UID]struct{}{},
		evictions: newEvictions()}
}

// add takes the place of an effect of the same kind on the same pod.
func (e *effects) add(x Effect) {
	e.done(x.UID, x.Kind)
	e.at[effectKey{x.UID, x.Kind}] = len(e.slots)
	e.slots = append(e.slots, x)
	switch x.Kind {
	case Evict:
		e.evicting[x.UID] = struct{}{}
	case GiveBack:
		e.groups[x.UID] = struct{}{}
	}
}

func (e *effects) has(uid types.UID, kind EffectKind) bool {
	_, ok := e.at[effectKey{uid, kind}]
	return ok
}

// decisionOf returns the decision that asked for the pod's outstanding effect of that kind; 0 if there is none.
func (e *effects) decisionOf(uid types.UID, kind EffectKind) uint64 {
	i, ok := e.at[effectKey{uid, kind}]
	if !ok {
		return 0
	}
	return e.slots[i].Seq
}

func (e *effects) done(uid types.UID, kind EffectKind) {
	key := effectKey{uid, kind}
	i, ok := e.at[key]
	if !ok {
		return
	}
	delete(e.at, key)
	switch kind {
	case Evict:
		delete(e.evicting, uid)
		e.evictions.end(uid, e.slots[i].Seq)
	case GiveBack:
		delete(e.groups, uid)
	}
	e.slots[i] = Effect{Seq: e.slots[i].Seq}
	if len(e.slots) > 64 && len(e.at) < len(e.slots)/2 {
		e.compact()
	}
}

// setQuestion gives a pod's outstanding question what it is about, if there is one.
func (e *effects) setQuestion(uid types.UID, q *question) {
	if i, ok := e.at[effectKey{uid, Ask}]; ok {
		e.slots[i].Nodes, e.slots[i].Candidates = q.nodes, q.candidates
	}
}

func (e *effects) compact() {
	kept := e.slots[:0]
	for _, x := range e.slots {
		if x.Kind != 0 {
			e.at[effectKey{x.UID, x.Kind}] = len(kept)
			kept = append(kept, x)
		}
	}
	clear(e.slots[len(kept):])
	e.slots = kept
}

// after returns the effects that were decided after entry seq and have no answer.
func (e *effects) after(seq uint64) []Effect {
	first := len(e.slots)
	for first > 0 && e.slots[first-1].Seq > seq {
		first--
	}
	var out []Effect
	for i := first; i < len(e.slots); i++ {
		if x := &e.slots[i]; x.Kind != 0 && (x.Kind != Evict || !e.answered[x.UID]) {
			if out == nil {
				out = make([]Effect, 0, len(e.slots)-i)
			}
			out = append(out, *x)
		}
	}
	return out
}

// appendState appends the effects, and the answered evictions: their pods are going.
func (e *effects) appendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.at)))
	for _, x := range e.slots {
		if x.Kind == 0 {
			continue
		}
		dst = append(dst, byte(x.Kind))
		dst = binary.AppendUvarint(dst, x.Seq)
		for _, s := range [...]string{x.Namespace, x.Name, string(x.UID), x.Node} {
			dst = canonical.AppendString(dst, s)
		}
		dst = binary.AppendUvarint(dst, uint64(len(x.Volumes)))
		for _, v := range x.Volumes {
			dst = canonical.AppendString(dst, v.Claim)
			dst = canonical.AppendString(dst, v.Volume)
		}
	}
	return dst
}

func (e *effects) restore(r *canonical.Reader) {
	for range r.Count("effects", 7) {
		x := Effect{
			Kind:      EffectKind(r.Byte("effect")),
			Seq:       r.Uvarint("decision"),
			Namespace: r.String("namespace"),
			Name:      r.String("name"),
			UID:       types.UID(r.String("uid")),
			Node:      r.String("node"),
		}
		for range r.Count("volumes", 2) {
			x.Volumes = append(x.Volumes, eventlog.VolumeClaim{Claim: r.String("claim"), Volume: r.String("volume")})
		}
		if x.Kind < Bind || x.Kind > GiveBack {
			r.Fail("effect", fmt.Errorf("unknown kind %d", x.Kind))
		}
		if r.Err() != nil {
			return
		}
		e.add(x)
	}
}
