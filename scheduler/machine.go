package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/backfill"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/outlook"
	"github.com/rollcall-sched/rollcall/queue"
)

// Machine is the scheduler as a state machine over the log. It is not safe for concurrent use.
type Machine struct {
	ctx      context.Context
	registry runtime.Registry

	cluster *cluster.State
	waiting *framework.WaitingPods
	queue   *queue.Queue // nil before the first EpochStarted
	effects effects

	nominated *nominations

	config   []byte // the epoch's configuration, as logged
	profiles map[string]*framework.Profile
	volumes  map[string]*cluster.VolumeRecorder // by profile; what the running cycle reserves
	// otherPermits says that some profile has a Permit plugin beside the gang plugin.
	otherPermits bool
	// By profile: it filters nodes by all resources, so that too little free in all means no place.
	roomChecked map[string]bool

	seq   uint64        // the last entry applied
	epoch uint64        // its epoch
	now   eventlog.Time // its time
	cycle uint64        // the last decision's cycle
	start int           // where the next cycle begins to look at nodes

	backfill *backfill.Planner // nil before the first EpochStarted, as is topology
	topology *topology

	// A memo of brokenWait: unless waitsDoubtful, no waiting pod is broken before waitsUntil.
	waitsDoubtful bool
	noneOverdue   bool // a memo of overdueWait
	waitsUntil    eventlog.Time
}

// ErrNoEpoch is returned by Apply for a log that does not begin with EpochStarted.
var ErrNoEpoch = errors.New("the log does not begin with EpochStarted")

// New returns a Machine to which no entry has been applied. The registry holds the plugins that
// configurations may name.
func New(registry runtime.Registry) *Machine {
	m := &Machine{
		ctx:      framework.Quiet(context.Background()),
		registry: registry,
		cluster:  cluster.New(),
		waiting:  &framework.WaitingPods{},
		volumes:  map[string]*cluster.VolumeRecorder{},

		roomChecked:   map[string]bool{},
		waitsDoubtful: true,
		effects:       effects{at: map[effectKey]int{}},
	}
	m.nominated = newNominations(m)
	return m
}

// Seq returns the sequence number of the last entry applied, 0 if none was.
func (m *Machine) Seq() uint64 { return m.seq }

// Epoch returns the epoch of the last entry applied, 0 if none was.
func (m *Machine) Epoch() uint64 { return m.epoch }

// Now returns the time of the last entry applied.
func (m *Machine) Now() eventlog.Time { return m.now }

// Cycle returns the number of the last decision applied, 0 if none was.
func (m *Machine) Cycle() uint64 { return m.cycle }

// Cluster returns the cluster's state, to be read only.
func (m *Machine) Cluster() *cluster.State { return m.cluster }

// Queue returns the scheduling queue, to be read only; nil before the first entry.
func (m *Machine) Queue() *queue.Queue { return m.queue }

// WaitingPods returns the pods that Permit holds, to be read only.
func (m *Machine) WaitingPods() *framework.WaitingPods { return m.waiting }

// Config returns the effective configuration of the running epoch, as logged.
func (m *Machine) Config() []byte { return m.config }

// Wake returns when time alone will make work: a backoff or a wait ends, or a flush is due. ok is false if
// it never will. Whoever drives the Machine then appends a Tick.
func (m *Machine) Wake() (at time.Time, ok bool) {
	if m.queue == nil {
		return time.Time{}, false
	}
	wake, ok := m.queue.Wake()
	if deadline, held := m.waiting.Deadline(); held && (!ok || deadline < wake) {
		wake, ok = deadline, true
	}
	return wake.Std(), ok
}

// Effects returns what decisions have asked of the outside world and no result has come for yet, in the
// order in which they were decided.
func (m *Machine) Effects() []Effect { return m.effects.after(0) }

// EffectsAfter returns the part of Effects that was decided after entry seq.
func (m *Machine) EffectsAfter(seq uint64) []Effect { return m.effects.after(seq) }

// priorityOf is the queue's Priority: that which a PodGroup was given, or a CompositePodGroup.
func (m *Machine) priorityOf(key queue.Key) (int32, bool) {
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := m.cluster.Group(key.Namespace, key.Name); g != nil {
			return g.Priority()
		}
	case fwk.CompositePodGroupKeyType:
		if c := m.cluster.Composite(key.Namespace, key.Name); c != nil {
			return c.Priority()
		}
	}
	return 0, false
}

// roomVersion is the queue's RoomVersion.
func (m *Machine) roomVersion() uint64 {
	return m.cluster.RoomVersion() + m.backfill.Version() + m.nominated.changes
}

// profileOf returns the profile that schedules pod, nil if that is another scheduler's.
func (m *Machine) profileOf(pod *v1.Pod) *framework.Profile {
	return m.profiles[pod.Spec.SchedulerName]
}

// hasRoom is the queue's Room: whether the cluster as a whole has enough for the gang, or for the gangs that are
// admitted together, and for all of that beside a reservation.
func (m *Machine) hasRoom(e *queue.Entity) bool {
	if !m.roomChecked[e.Profile()] {
		return true
	}
	// What is free beside a reservation takes the longer to count, and is never more than what is free.
	return m.hasRoomForAll(e) && m.backfill.HasRoom(e)
}

func (m *Machine) hasRoomForAll(e *queue.Entity) bool {
	key := e.Key()
	if key.Type == fwk.PodKeyType {
		return !m.backfill.HasLane(e.Profile()) || m.podHasRoom(e) || m.podMayPreempt(e)
	}
	gangs := m.gangsOf(key)
	if slices.ContainsFunc(gangs, (*cluster.Group).NonStrict) || m.mayPreempt(e, gangs) {
		return true
	}
	if key.Type == fwk.CompositePodGroupKeyType {
		c := m.cluster.Composite(key.Namespace, key.Name)
		if c == nil {
			return true
		}
		_, lacks := m.cluster.LacksTogether(c)
		return !lacks
	}
	for _, g := range gangs {
		if _, lacks := m.cluster.Lacks(g); lacks {
			return false
		}
		if g.HasTopology() {
			if _, why := m.topology.domainOf(g, false); why != "" {
				return false
			}
		}
	}
	return true
}

// podHasRoom says whether all nodes together have enough for a single pod.
func (m *Machine) podHasRoom(e *queue.Entity) bool {
	for _, p := range (planView{m.cluster, m}).Needed(e) {
		for _, name := range outlook.ResourcesOf([]*cluster.Pod{p}) {
			if free, offered := m.cluster.Free(name); offered && p.Amount(name) > free {
				return false
			}
		}
	}
	return true
}

// effectKey tells effects apart: a pod has at most one of each kind.
type effectKey struct {
	uid  types.UID
	kind EffectKind
}

// effects are the outstanding effects in the order of their decisions. Those that are done leave a gap
// until half of the slots are gaps.
type effects struct {
	slots []Effect
	at    map[effectKey]int
}

// add takes the place of an effect of the same kind on the same pod.
func (e *effects) add(x Effect) {
	e.done(x.UID, x.Kind)
	e.at[effectKey{x.UID, x.Kind}] = len(e.slots)
	e.slots = append(e.slots, x)
}

func (e *effects) has(uid types.UID, kind EffectKind) bool {
	_, ok := e.at[effectKey{uid, kind}]
	return ok
}

func (e *effects) done(uid types.UID, kind EffectKind) {
	key := effectKey{uid, kind}
	i, ok := e.at[key]
	if !ok {
		return
	}
	delete(e.at, key)
	e.slots[i] = Effect{Seq: e.slots[i].Seq}
	if len(e.slots) > 64 && len(e.at) < len(e.slots)/2 {
		e.compact()
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

func (e *effects) after(seq uint64) []Effect {
	var out []Effect
	for i := len(e.slots) - 1; i >= 0 && e.slots[i].Seq > seq; i-- {
		if e.slots[i].Kind != 0 {
			out = append(out, e.slots[i])
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}
