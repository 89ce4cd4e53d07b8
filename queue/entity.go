package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Key names an entity: a pod or a pod group, with namespace and name.
type Key = fwk.EntityKey

// CompareKeys orders keys by type, namespace and name.
func CompareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(string(a.Type), string(b.Type)),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// State is the place in the queue that an entity is in. The numbers are part of AppendState's encoding.
type State uint8

// The states. An entity is in exactly one.
const (
	// Gated: no member is ready and at least one is kept out by a PreEnqueue plugin.
	Gated State = 1
	// Active: waits for its turn.
	Active State = 2
	// Backoff: will be active when its backoff expires.
	Backoff State = 3
	// Unschedulable: its last attempt failed, and it waits for an event, or (see Entity.Retryable) for room.
	Unschedulable State = 4
	// InFlight: an attempt began and has not ended.
	InFlight State = 5
	// Placed: every member has a node.
	Placed State = 6
	// Asking: questions about members are open, and it is tried once they are answered; see asking.go.
	Asking State = 7
)

var stateNames = [...]string{"", "Gated", "Active", "Backoff", "Unschedulable", "InFlight", "Placed", "Asking"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// member is one pod of an entity.
type member struct {
	entity *Entity
	pod    *v1.Pod
	part   string // of a composite: the gang that it is a member of
	placed bool
	// tried: the attempt under way, or else the last one, has come to the pod, and does not come to it again. refused:
	// that attempt refused it.
	tried, refused bool
	// asking: a question about it is open.
	asking bool
	// turn is the member's place in the order of the entity's plan, from 1; 0 without a plan for it.
	turn int
	// gate is the PreEnqueue plugin that keeps the pod out, nil if none does. message is its message. Only pending
	// members have a gate.
	gate    *plugin
	message string
}

func compareMembers(a, b *member) int {
	return cmp.Or(
		strings.Compare(a.part, b.part),
		strings.Compare(a.pod.Name, b.pod.Name),
		strings.Compare(string(a.pod.UID), string(b.pod.UID)),
	)
}

// restPlace is an entity's place in the list of resting entities.
type restPlace struct {
	in            *restList // Queue.resting or Queue.outside; nil if it is in neither
	before, after *Entity   // its neighbours there
}

// gateRef is an entity's place among the entities gated by one plugin.
type gateRef struct {
	plugin  *plugin
	members int // how many of the entity's members it gates
	slot    int // in plugin.gates
}

// Entity is a pod, or a gang with its pods, in the queue. It is read through its methods and changed only
// by the Queue. It implements fwk.QueuedEntityInfo, so that QueueSort plugins can order it.
type Entity struct {
	key       Key
	profile   string
	state     State
	retryable bool // Unschedulable, and to be retried when there is room; see room.go
	resize    bool // see Resize
	priority  int32

	// Each member is counted as exactly one of ready, gated and placed. toTry counts the ready members that the
	// current attempt has not come to.
	members              []*member // by part, name, UID
	ready, gated, placed int
	toTry                int
	asking               int                  // members about whom a question is open
	firstToTry           int                  // a memo: no member before this one is ready and still to try
	plan                 plan                 // of the attempt that comes next, or of the one under way
	parts                map[string]partCount // of an entity that has parts

	timestamp   eventlog.Time // see Timestamp
	firstActive eventlog.Time
	firstStd    time.Time // firstActive, for GetInitialAttemptTimestamp

	attempts           int
	unschedulableCount int
	errorCount         int
	failed             bool // the last attempt ended in a failure
	erred              bool // a member met with an error in the attempt under way
	keptOff            bool // see KeptOff
	asked              bool // questions were asked for the attempt that comes next, at startedAt
	backoffUntil       eventlog.Time
	// poppedEarly: it was attempted early, and no backoff of its own has ended between two attempts since; see
	// early.go.
	poppedEarly bool

	// The plugins that rejected it in the attempt under way, or else in the last one: sorted, distinct.
	plugins, pendingPlugins     []string
	gatingPlugin, gatingMessage string

	// Events that came while it was in flight, for verdict. startedAt is Queue.changes when the attempt began.
	startedAt          uint64
	noted              []string // sorted: the plugins whose hints wanted it retried
	notedAll, notedAny bool     // there was a wildcard event; any event at all

	// When it came to rest, Unschedulable or Gated: the time, and Queue.changes then. If that is the same now, nothing
	// has changed since, and it is not flushed.
	since eventlog.Time
	stamp uint64

	// Its places in the queue. Which of them are set follows from state and retryable.
	slot      int           // in its heap or alike
	alike     *refusedAlike // of the unschedulable ones that are not retryable
	lane      *lane         // nil if it is in none
	node      treeNode      // in its lane, or among the retryable
	gates     []gateRef
	rest      restPlace
	isResting bool
	isEarly   bool // it is in Queue.early
	stale     bool // it is in Queue.stale
	left      bool // it has left the queue
}

var _ fwk.QueuedEntityInfo = (*Entity)(nil)

// Key returns the entity's name in the queue.
func (e *Entity) Key() Key { return e.key }

// Type implements fwk.QueuedEntityInfo: pod or podgroup.
func (e *Entity) Type() fwk.EntityKeyType { return e.key.Type }

// Profile returns the scheduler name of the pod that made the entity.
func (e *Entity) Profile() string { return e.profile }

// Resize reports whether the entity is a pod that is on its node already, and waits there for a resize. No PreEnqueue
// plugin keeps it out, it is in no lane, and it does not wait for room.
func (e *Entity) Resize() bool { return e.resize }

// isResize reports whether a pod that comes into the queue is on its node: no other pod that does has a node by its
// object.
func isResize(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

// State returns the place in the queue that the entity is in.
func (e *Entity) State() State { return e.state }

// Retryable reports, of an unschedulable entity, that it is due for another attempt (an event asked for it, or
// its backoff or flush did) and that only Room holds it back.
func (e *Entity) Retryable() bool { return e.retryable }

// Failed reports whether the last attempt ended in a failure.
func (e *Entity) Failed() bool { return e.failed }

// KeptOff reports whether the last attempt, or the one under way, was refused nodes because they are for an entity that
// comes first: it overtook that one.
func (e *Entity) KeptOff() bool { return e.keptOff }

// Since returns the time at which the entity became unschedulable or gated. It is zero in other states, and if the
// entity is retryable.
func (e *Entity) Since() eventlog.Time {
	if !e.isResting {
		return 0
	}
	return e.since
}

// Size returns how many members the entity has, placed ones included.
func (e *Entity) Size() int { return len(e.members) }

// NumReady returns how many pending members passed PreEnqueue.
func (e *Entity) NumReady() int { return e.ready }

// NumGated returns how many pending members a PreEnqueue plugin keeps out.
func (e *Entity) NumGated() int { return e.gated }

// NumPlaced returns how many members have a node.
func (e *Entity) NumPlaced() int { return e.placed }

// Any reports whether something is true of any member.
func (e *Entity) Any(is func(uid types.UID) bool) bool {
	return slices.ContainsFunc(e.members, func(m *member) bool { return is(m.pod.UID) })
}

// NumPending returns how many members have no node.
func (e *Entity) NumPending() int { return e.ready + e.gated }

// Pending returns the pods that have no node, by part, name and UID. The pods must not be changed.
func (e *Entity) Pending() []*v1.Pod {
	pods := make([]*v1.Pod, 0, e.NumPending())
	for _, m := range e.members {
		if !m.placed {
			pods = append(pods, m.pod)
		}
	}
	return pods
}

// Ready returns the pending pods that passed PreEnqueue, by part, name and UID. The pods must not be changed.
func (e *Entity) Ready() []*v1.Pod {
	pods := make([]*v1.Pod, 0, e.ready)
	for _, m := range e.members {
		if !m.placed && m.gate == nil {
			pods = append(pods, m.pod)
		}
	}
	return pods
}

// NumToTry returns how many of the ready members the attempt under way has not come to yet; all of them if
// none is under way.
func (e *Entity) NumToTry() int {
	if e.state != InFlight {
		return e.ready
	}
	return e.toTry
}

// NumToTryOf is NumToTry of one part of a composite.
func (e *Entity) NumToTryOf(part string) int {
	n := e.parts[part]
	if e.state != InFlight {
		return n.ready
	}
	return n.toTry
}

// Next returns the first ready pod that the current attempt has not come to yet. Without an attempt it is the first
// ready pod. The pods of a plan come first, in its order, and then the others by part, name and UID. It is nil if there
// is none. The pod must not be changed.
func (e *Entity) Next() *v1.Pod {
	for _, m := range e.plan.members {
		if !m.placed && m.gate == nil && (e.state != InFlight || !m.tried) {
			return m.pod
		}
	}
	if e.state != InFlight {
		for _, m := range e.members {
			if !m.placed && m.gate == nil {
				return m.pod
			}
		}
		return nil
	}
	if e.toTry == 0 {
		return nil
	}
	for e.members[e.firstToTry].placed || e.members[e.firstToTry].gate != nil || e.members[e.firstToTry].tried {
		e.firstToTry++
	}
	return e.members[e.firstToTry].pod
}

// PlacedMembers returns the UIDs of the members with a node, in the order of their pods' names.
func (e *Entity) PlacedMembers() []types.UID {
	uids := make([]types.UID, 0, e.placed)
	for _, m := range e.members {
		if m.placed {
			uids = append(uids, m.pod.UID)
		}
	}
	return uids
}

// Gate returns the PreEnqueue plugin that keeps the member out and what it said; ok is false if the pod is
// no member or not gated.
func (e *Entity) Gate(uid types.UID) (plugin, message string, ok bool) {
	for _, m := range e.members {
		if m.pod.UID == uid && m.gate != nil {
			return m.gate.name, m.message, true
		}
	}
	return "", "", false
}

// GatingPlugin returns the PreEnqueue plugin that gated a member last, and GatingMessage what it said;
// empty unless the entity is Gated.
func (e *Entity) GatingPlugin() string {
	if e.state != Gated {
		return ""
	}
	return e.gatingPlugin
}

// GatingMessage returns the message of the gating plugin. It is empty unless the entity is Gated.
func (e *Entity) GatingMessage() string {
	if e.state != Gated {
		return ""
	}
	return e.gatingMessage
}

// RejectedBy returns the names of the plugins that rejected the last attempt, each list sorted: the plugins that
// answered Unschedulable, and the plugins that answered Pending. The slices must not be changed.
func (e *Entity) RejectedBy() (unschedulable, pending []string) { return e.plugins, e.pendingPlugins }

// Attempts returns how many attempts began.
func (e *Entity) Attempts() int { return e.attempts }

// Timestamp returns when the entity came into the queue, or back into it after its last attempt.
func (e *Entity) Timestamp() eventlog.Time { return e.timestamp }

// FirstActive returns when the entity was active for the first time; zero if it never was.
func (e *Entity) FirstActive() eventlog.Time { return e.firstActive }

// BackoffUntil returns when the backoff of the last failure ends; zero if there is none.
func (e *Entity) BackoffUntil() eventlog.Time { return e.backoffUntil }

// Priority returns the entity's own priority, see Options.Priority, or the highest among the members.
func (e *Entity) Priority() int32 { return e.priority }

// GetPriority implements fwk.QueuedEntityInfo.
func (e *Entity) GetPriority() int32 { return e.priority }

// GetTimestamp implements fwk.QueuedEntityInfo.
func (e *Entity) GetTimestamp() time.Time { return e.timestamp.Std() }

// GetAttempts implements fwk.QueuedEntityInfo.
func (e *Entity) GetAttempts() int { return e.attempts }

// GetBackoffExpiration implements fwk.QueuedEntityInfo.
func (e *Entity) GetBackoffExpiration() time.Time { return e.backoffUntil.Std() }

// GetUnschedulableCount implements fwk.QueuedEntityInfo.
func (e *Entity) GetUnschedulableCount() int { return e.unschedulableCount }

// GetConsecutiveErrorsCount implements fwk.QueuedEntityInfo.
func (e *Entity) GetConsecutiveErrorsCount() int { return e.errorCount }

// GetInitialAttemptTimestamp implements fwk.QueuedEntityInfo.
func (e *Entity) GetInitialAttemptTimestamp() *time.Time {
	if e.firstActive == 0 {
		return nil
	}
	return &e.firstStd
}

// GetUnschedulablePlugins implements fwk.QueuedEntityInfo.
func (e *Entity) GetUnschedulablePlugins() sets.Set[string] { return sets.New(e.plugins...) }

// GetPendingPlugins implements fwk.QueuedEntityInfo.
func (e *Entity) GetPendingPlugins() sets.Set[string] { return sets.New(e.pendingPlugins...) }

// GetGatingPlugin implements fwk.QueuedEntityInfo.
func (e *Entity) GetGatingPlugin() string { return e.GatingPlugin() }

// GetGatingPluginEvents implements fwk.QueuedEntityInfo.
func (e *Entity) GetGatingPluginEvents() []fwk.ClusterEvent {
	if e.state != Gated {
		return nil
	}
	for _, g := range e.gates {
		if g.plugin.name == e.gatingPlugin {
			return g.plugin.events()
		}
	}
	return nil
}

// insert puts m among the members and counts it.
func (e *Entity) insert(m *member) {
	i, _ := slices.BinarySearchFunc(e.members, m, compareMembers)
	e.members = slices.Insert(e.members, i, m)
	e.firstToTry = 0
	e.count(m, 1)
}

// remove takes m out, which must not be gated.
func (e *Entity) remove(m *member) {
	i, found := slices.BinarySearchFunc(e.members, m, compareMembers)
	if !found {
		panic("queue: " + string(m.pod.UID) + " is not among the members of " + e.key.String())
	}
	e.members = slices.Delete(e.members, i, i+1)
	e.plan.members = slices.DeleteFunc(e.plan.members, func(o *member) bool { return o == m })
	e.firstToTry = 0
	e.count(m, -1)
}

// count adds n to the counter of the kind of member that m is.
func (e *Entity) count(m *member, n int) {
	switch {
	case m.placed:
		e.placed += n
	case m.gate != nil:
		e.gated += n
	default:
		toTry := 0
		if !m.tried {
			toTry = n
		}
		e.ready += n
		e.toTry += toTry
		if toTry > 0 {
			e.firstToTry = 0
		}
		if m.part != "" {
			e.countPart(m.part, n, toTry)
		}
	}
}

// partCount counts the ready members of a part, and the ready members that are still to try.
type partCount struct{ ready, toTry int }

func (e *Entity) countPart(part string, ready, toTry int) {
	if e.parts == nil {
		e.parts = map[string]partCount{}
	}
	n := e.parts[part]
	n.ready, n.toTry = n.ready+ready, n.toTry+toTry
	if e.parts[part] = n; n == (partCount{}) {
		delete(e.parts, part)
	}
}

// priorityOf is the entity's priority: its own, or the highest among its members.
func (q *Queue) priorityOf(e *Entity) int32 {
	if q.opts.Priority != nil {
		if p, ok := q.opts.Priority(e.key); ok {
			return p
		}
	}
	p := corev1helpers.PodPriority(e.members[0].pod)
	for _, m := range e.members[1:] {
		p = max(p, corev1helpers.PodPriority(m.pod))
	}
	return p
}
