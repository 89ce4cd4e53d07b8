package scheduler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/queue"
)

// Evictions. An eviction is an effect that ends with an EvictResult, or with the end of its pod:
//
//	Done, Gone        the pod is going: it is not evicted again, and counts as going until it is gone
//	Refused           it is tried again: nothing changes
//	GivenUp           the pod stays, and is no victim for a while; no room is kept any longer for its preemptors,
//	                  which are tried again
//	Withdrawn         the pod stays: nobody needed the room before the eviction was sent
//
// Other preemptors may count on a pod that is going: they wait for it, and have evicted nobody themselves. While there
// are any, the eviction is wanted. If the pod stays, they are tried again.

// exemptFor is for how long a pod is no victim after an eviction of it was given up.
const exemptFor = 5 * time.Minute

// evictions is the data about outstanding evictions besides the effects themselves.
type evictions struct {
	// answered are the pods whose eviction was taken by the API server, or was needless: they are going.
	answered map[types.UID]bool
	// preemptions are, by Decision, the evictions that make room for pods that wait for it.
	preemptions map[uint64]*displacement
	// refused are the pods whose eviction was given up, with the time until which they are no victims.
	refused map[types.UID]eventlog.Time
}

func newEvictions() evictions {
	return evictions{
		answered: map[types.UID]bool{}, preemptions: map[uint64]*displacement{}, refused: map[types.UID]eventlog.Time{},
	}
}

// displacement is a Decision that evicts pods for others.
type displacement struct {
	// left are the evictions that have not ended.
	left int
	// unanswered are the pods of those evictions of which no Done or Gone has come, in the order of the effects.
	unanswered []types.UID
	// preemptors are the pods that the Decision nominated, with their nodes; or the pod whose resize is deferred, with
	// the node on which it is.
	preemptors []eventlog.Nomination
}

// end notes that an eviction is not outstanding any longer.
func (e *evictions) end(uid types.UID, seq uint64) {
	delete(e.answered, uid)
	p := e.preemptions[seq]
	if p == nil {
		return
	}
	p.answer(uid)
	if p.left--; p.left == 0 {
		delete(e.preemptions, seq)
	}
}

// answer notes that the pod is known to go, or that its eviction has ended.
func (p *displacement) answer(uid types.UID) {
	p.unanswered = slices.DeleteFunc(p.unanswered, func(other types.UID) bool { return other == uid })
}

// spared reports whether the pod is no victim now.
func (e *evictions) spared(uid types.UID, now eventlog.Time) bool {
	until, ok := e.refused[uid]
	return ok && now < until
}

// exempt keeps the pod from being a victim for a while.
func (e *evictions) exempt(uid types.UID, now eventlog.Time) { e.refused[uid] = now.Add(exemptFor) }

// sparedUntil returns when the first of the pods that are spared may be a victim again; ok is false if none is spared.
func (e *evictions) sparedUntil() (at eventlog.Time, ok bool) {
	// any order: the smallest is the result
	for _, until := range e.refused {
		if !ok || until < at {
			at, ok = until, true
		}
	}
	return at, ok
}

// endSparing forgets the pods that may be victims again, and has tried again what they may make room for: entities
// whose refusals the end of such a pod could satisfy. A gang may go as a whole, and then all that waits is tried again.
func (m *Machine) endSparing() {
	if at, ok := m.effects.sparedUntil(); !ok || at > m.at.now {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(m.effects.refused)) {
		if m.effects.refused[uid] > m.at.now {
			continue
		}
		delete(m.effects.refused, uid)
		switch p := m.cluster.Pods().Get(uid); {
		case p == nil || p.Node == "":
			continue
		case p.Group != nil:
			m.queue.Move(fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}, nil, nil)
		default:
			m.queue.Move(upstream.EventAssignedPodDelete, p.Placed(), nil)
		}
		if m.nominated.wantsDevices(m.cluster.Pods().Get(uid)) {
			moveOnDevices(m.queue)
		}
	}
}

// SparedUntil returns until when the pod is no victim, because its eviction was given up; ok is false if it may be one.
func (m *Machine) SparedUntil(uid types.UID) (until eventlog.Time, ok bool) {
	until, ok = m.effects.refused[uid]
	return until, ok
}

// noteVictims notes for whom the victims of a decision make room. It ignores a Decision with the outcome Evicted, which
// evicts the rest of a fallen gang: no pod waits for that room.
func (m *Machine) noteVictims(seq uint64, d *eventlog.Decision) {
	if d.Outcome == eventlog.Evicted {
		return
	}
	p := &displacement{}
	for i, uid := range d.Victims {
		if m.cluster.Pods().Get(uid) != nil && !slices.Contains(d.Victims[:i], uid) {
			p.left++
			p.unanswered = append(p.unanswered, uid)
		}
	}
	if d.Nominated != "" {
		p.preemptors = append(p.preemptors, eventlog.Nomination{UID: d.UID, Node: d.Nominated})
	}
	for _, n := range d.Nominations {
		if n.Node != "" {
			p.preemptors = append(p.preemptors, n)
		}
	}
	if pod := m.cluster.Pods().Get(d.UID); pod != nil && m.entities.awaitsResize(pod) {
		p.preemptors = append(p.preemptors, eventlog.Nomination{UID: d.UID, Node: pod.Node})
	}
	if p.left > 0 && len(p.preemptors) > 0 {
		m.effects.preemptions[seq] = p
	}
}

// MakesRoom reports whether an outstanding eviction is for pods that wait for the room. The others are for the rest of
// a gang that has fallen below its minimum, or of a behaviour before 5.
func (m *Machine) MakesRoom(x Effect) bool {
	return x.Kind == Evict && m.effects.preemptions[x.Seq] != nil
}

// MakesRoomFor returns the pods for which the outstanding evictions of a decision make room.
func (m *Machine) MakesRoomFor(seq uint64) (uids []types.UID) {
	if p := m.effects.preemptions[seq]; p != nil {
		for _, n := range p.preemptors {
			uids = append(uids, n.UID)
		}
	}
	return uids
}

// isWanted reports whether a decision's evictions have a purpose, see Unwanted.
func (m *Machine) isWanted(p *displacement) bool {
	return slices.ContainsFunc(p.preemptors, m.waitsFor) || slices.ContainsFunc(p.unanswered, m.isCountedOn)
}

// waitsFor reports whether a pod still waits for the room on the node that was made for it.
func (m *Machine) waitsFor(n eventlog.Nomination) bool {
	pod := m.cluster.Pods().Get(n.UID)
	switch {
	case pod == nil:
		return false
	case pod.Stage == cluster.Pending || pod.Stage == cluster.Waiting:
		return m.nominated.nodeOf(n.UID) == n.Node
	default:
		return pod.Node == n.Node && m.entities.awaitsResize(pod)
	}
}

// isCountedOn reports whether a pod that may preempt it waits for room on the node of a pod that is to go.
func (m *Machine) isCountedOn(victim types.UID) bool {
	v := m.cluster.Pods().Get(victim)
	return v != nil && slices.ContainsFunc(m.waitingBeside(v), func(p *cluster.Pod) bool {
		return m.mayPreempt(p, v)
	})
}

// waitingBeside returns the pods that wait for room on the node of a pod. First come the pods that are nominated to it,
// in the order of their nominations, and then the pods on it whose resize is deferred, by name.
func (m *Machine) waitingBeside(pod *cluster.Pod) (waiting []*cluster.Pod) {
	if pod.Node == "" {
		return nil
	}
	for _, uid := range m.nominated.byNode[pod.Node] {
		if p := m.cluster.Pods().Get(uid); p != pod && (p.Stage == cluster.Pending || p.Stage == cluster.Waiting) {
			waiting = append(waiting, p)
		}
	}
	for _, p := range m.cluster.PodsOn(pod.Node) {
		if p != pod && m.entities.awaitsResize(p) {
			waiting = append(waiting, p)
		}
	}
	return waiting
}

// WaitingBeside returns the pods that wait for room on the node of a pod, and are tried again if it is to go and then
// stays.
func (m *Machine) WaitingBeside(uid types.UID) (uids []types.UID) {
	if pod := m.cluster.Pods().Get(uid); pod != nil {
		for _, p := range m.waitingBeside(pod) {
			uids = append(uids, p.Object.UID)
		}
	}
	return uids
}

// Unwanted returns the outstanding evictions that nobody waits for now, in the order in which they were decided. It
// looks at nothing but evictions that make room, and allocates nothing if all of them are wanted.
//
// The evictions of a decision lose their purpose once nothing waits for any of them: no preemptor, and no other pod
// that counts on a victim. A pod does not wait for its room any longer when it is gone, was placed, or is nominated to
// another node. A pod on its node does not wait any longer when its resize is not deferred.
func (m *Machine) Unwanted() (unwanted []Effect) {
	var seqs []uint64
	for seq, p := range m.effects.preemptions { // any order: sorted below
		if len(p.unanswered) > 0 && !m.isWanted(p) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		for _, uid := range m.effects.preemptions[seq].unanswered {
			unwanted = append(unwanted, m.effects.slots[m.effects.at[effectKey{uid, Evict}]])
		}
	}
	return unwanted
}

// applyEvictResult takes in the result of an eviction. A late result changes nothing: the pod is gone, or the result is
// for another decision than the outstanding one.
func (m *Machine) applyEvictResult(r *eventlog.EvictResult) error {
	if r.Decision != m.effects.decisionOf(r.UID, Evict) || m.effects.answered[r.UID] {
		return nil
	}
	switch r.Outcome {
	case eventlog.EvictDone, eventlog.EvictGone:
		m.effects.answered[r.UID] = true
		if p := m.effects.preemptions[r.Decision]; p != nil {
			p.answer(r.UID)
		}
	case eventlog.EvictRefused:
	case eventlog.EvictGivenUp:
		p := m.effects.preemptions[r.Decision]
		m.effects.exempt(r.UID, m.at.now)
		m.keep(r.UID)
		if p != nil {
			m.retry(m.endPreemption(p), m.entitiesBeside(r.UID))
		}
	case eventlog.EvictWithdrawn:
		p := m.effects.preemptions[r.Decision]
		m.keep(r.UID)
		if p != nil {
			m.retry(nil, m.entitiesBeside(r.UID))
		}
	default:
		return fmt.Errorf("evict result of pod %s: unknown outcome %d", r.UID, r.Outcome)
	}
	return nil
}

// keep notes that a pod that was evicted stays. If it lost its node meanwhile, it is scheduled again.
func (m *Machine) keep(uid types.UID) {
	m.effects.done(uid, Evict)
	p := m.cluster.Pods().Get(uid)
	if p == nil {
		return
	}
	var before cluster.GangFacts
	if p.Group != nil {
		before = cluster.FactsOf(p.Group)
	}
	m.cluster.Staying(p)
	if p.Stage == cluster.Pending {
		m.entities.requeue(p, nil)
	}
	m.entities.followResize(p, nil)
	if p.Group != nil {
		m.entities.recheckGang(p.Group.Key(), before)
		m.entities.recheckGroup(p)
	}
}

// endPreemption ends the nominations for which an eviction should have made room, and returns the entities of the pods,
// of those whose resize is deferred as well.
func (m *Machine) endPreemption(p *displacement) (keys []queue.Key) {
	for _, n := range p.preemptors {
		pod := m.cluster.Pods().Get(n.UID)
		var key queue.Key
		switch {
		case pod == nil:
			continue
		case m.entities.awaitsResize(pod):
			key = resizeKey(pod)
		case m.nominated.nodeOf(n.UID) == n.Node:
			m.nominated.set(n.UID, "")
			key = m.entities.keyOf(pod)
		default:
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// retry has each of the entities tried again.
func (m *Machine) retry(some, others []queue.Key) {
	retried := map[queue.Key]bool{}
	for _, key := range slices.Concat(some, others) {
		if !retried[key] {
			retried[key] = true
			m.queue.Retry(key)
		}
	}
}

// retryAwaiting has the pods tried again that are nominated to nodes where devices were about to come free and do not:
// they may have had no other pod evicted for these.
func (m *Machine) retryAwaiting(nodes []string) {
	for _, node := range nodes {
		for _, uid := range m.nominated.byNode[node] {
			if p := m.cluster.Pods().Get(uid); p.Stage == cluster.Pending && m.nominated.wantsDevices(p) {
				m.queue.Retry(m.entities.keyOf(p))
			}
		}
	}
}

// entitiesBeside returns the entities of the pods that may have counted on a pod that stays. Their nominations are left
// to their attempts: other pods may be going for them.
func (m *Machine) entitiesBeside(uid types.UID) (keys []queue.Key) {
	pod := m.cluster.Pods().Get(uid)
	if pod == nil {
		return nil
	}
	for _, p := range m.waitingBeside(pod) {
		if m.entities.awaitsResize(p) {
			keys = append(keys, resizeKey(p))
		} else {
			keys = append(keys, m.entities.keyOf(p))
		}
	}
	return keys
}

func (e *effects) appendEvictions(dst []byte) []byte {
	dst = appendUIDs(dst, slices.Sorted(maps.Keys(e.answered)))
	dst = binary.AppendUvarint(dst, uint64(len(e.preemptions)))
	for _, seq := range slices.Sorted(maps.Keys(e.preemptions)) {
		dst = binary.AppendUvarint(dst, seq)
		preemptors := e.preemptions[seq].preemptors
		dst = binary.AppendUvarint(dst, uint64(len(preemptors)))
		for _, n := range preemptors {
			dst = canonical.AppendString(dst, string(n.UID))
			dst = canonical.AppendString(dst, n.Node)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.refused)))
	for _, uid := range slices.Sorted(maps.Keys(e.refused)) {
		dst = canonical.AppendString(dst, string(uid))
		dst = binary.AppendVarint(dst, int64(e.refused[uid]))
	}
	return dst
}

func appendUIDs(dst []byte, uids []types.UID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(uids)))
	for _, uid := range uids {
		dst = canonical.AppendString(dst, string(uid))
	}
	return dst
}

// restoreEvictions reads what appendEvictions wrote, after the effects themselves.
func (e *effects) restoreEvictions(r *canonical.Reader) {
	for range r.Count("answered evictions", 1) {
		uid := types.UID(r.String("uid"))
		if r.Err() == nil && !e.has(uid, Evict) {
			r.Fail("uid", fmt.Errorf("no eviction of pod %q is outstanding", uid))
		}
		if r.Err() != nil {
			return
		}
		e.answered[uid] = true
	}
	left, unanswered := map[uint64]int{}, map[uint64][]types.UID{}
	for _, x := range e.slots {
		if x.Kind != Evict {
			continue
		}
		left[x.Seq]++
		if !e.answered[x.UID] {
			unanswered[x.Seq] = append(unanswered[x.Seq], x.UID)
		}
	}
	for range r.Count("preemptions", 2) {
		seq, p := r.Uvarint("decision"), &displacement{}
		for range r.Count("preemptors", 2) {
			p.preemptors = append(p.preemptors,
				eventlog.Nomination{UID: types.UID(r.String("uid")), Node: r.String("node")})
		}
		p.unanswered = unanswered[seq]
		if p.left = left[seq]; r.Err() == nil && (p.left == 0 || len(p.preemptors) == 0) {
			r.Fail("decision", errors.New("it evicts no pod, or for nobody"))
		}
		if r.Err() != nil {
			return
		}
		e.preemptions[seq] = p
	}
	for range r.Count("refused evictions", 2) {
		uid, until := types.UID(r.String("uid")), eventlog.Time(r.Varint("until"))
		if r.Err() != nil {
			return
		}
		e.refused[uid] = until
	}
}
