package scheduler

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/queue"
)

// Machine is the scheduler as a state machine over the log. It is not safe for concurrent use.
type Machine struct {
	ctx      context.Context
	registry framework.Registry

	at        position
	cluster   *cluster.State
	queue     *queue.Queue // nil before the first EpochStarted
	waits     *waits
	effects   effects
	nominated *nominations
	backfill  *backfill.Planner
	behaviour uint32    // of the running epoch, see Behaviours
	gates     gates.Set // of the configuration; see keepGates
	picked    bool      // the queue has chosen its head since the last entry; a memo

	// These have no state of their own. Like queue and backfill they are made by configure.
	profiles *profiles
	entities *entities
	topology *topology
	bindings *bindingCycles
	wanted   *wanted
	recorded *recorded

	guard     *searchGuard
	extenders *extenders
	unmake    func() // ends the context of the plugins
}

// position is the place in the log up to which entries are applied.
type position struct {
	seq   uint64        // the last entry applied
	epoch uint64        // its epoch
	now   eventlog.Time // its time
	cycle uint64        // the last decision's cycle
	start int           // where the next cycle begins to look at nodes
}

// ErrNoEpoch is returned by Apply for a log that does not begin with EpochStarted.
var ErrNoEpoch = errors.New("the log does not begin with EpochStarted")

// New returns a Machine to which no entry has been applied. The registry holds the plugins that
// configurations may name.
func New(registry framework.Registry) *Machine {
	m := &Machine{
		ctx:       framework.WithoutLogger(context.Background()),
		registry:  registry,
		cluster:   cluster.New(),
		effects:   newEffects(),
		nominated: newNominations(),
		profiles:  noProfiles(nil),
		behaviour: Behaviour,
		guard:     &searchGuard{},
	}
	m.wanted, m.recorded = &wanted{}, &recorded{sink: registry.Events}
	m.extenders = newExtenders(nil, m.Now)
	m.bindings = &bindingCycles{m: m, open: map[types.UID]*bindingCycle{}}
	m.waits = newWaits(m.cluster, &m.effects, m.bindings, m.Now)
	return m
}

// keepGates puts the configuration's feature gates in force. Each method that runs plugins or computes requests of pods
// calls it first, so that Machines with different gates can take turns in one process.
func (m *Machine) keepGates() {
	if m.queue != nil {
		gates.Keep(m.gates)
	}
}

// Seq returns the sequence number of the last entry applied, 0 if none was.
func (m *Machine) Seq() uint64 { return m.at.seq }

// Epoch returns the epoch of the last entry applied, 0 if none was.
func (m *Machine) Epoch() uint64 { return m.at.epoch }

// Now returns the time of the last entry applied.
func (m *Machine) Now() eventlog.Time { return m.at.now }

// Cycle returns the number of the last decision applied, 0 if none was.
func (m *Machine) Cycle() uint64 { return m.at.cycle }

// Cluster returns the cluster's state, to be read only.
func (m *Machine) Cluster() *cluster.State { return m.cluster }

// Queue returns the scheduling queue, to be read only; nil before the first entry.
func (m *Machine) Queue() *queue.Queue {
	m.pick()
	return m.queue
}

// pick makes the queue choose its head, unless it has done so since the last entry. The choice is a memo: it is made
// again after each entry, and is never part of the state that is hashed.
func (m *Machine) pick() {
	if m.picked || m.queue == nil {
		return
	}
	m.keepGates()
	m.picked = true
	m.backfill.NoteBlocked()
	m.queue.ChooseHead()
}

// unpick takes the choice back. So an entry is applied to the same state whether Decide was called before it, as in a
// running scheduler, or not, as in recovery.
func (m *Machine) unpick() {
	if m.picked {
		m.queue.Unpick()
		m.picked = false
	}
}

// WaitingPods returns the pods that Permit holds, to be read only.
func (m *Machine) WaitingPods() *framework.WaitingPods { return m.waits.pods }

// Config returns the effective configuration of the running epoch, as logged.
func (m *Machine) Config() []byte { return m.profiles.config }

// Wake returns the next time at which there is work without an input. A backoff or a wait ends then, a flush is due, or
// a pod whose eviction was given up may be a victim again. It returns false if there is no such time. The driver of the
// Machine appends a Tick then.
func (m *Machine) Wake() (at time.Time, ok bool) {
	if m.queue == nil {
		return time.Time{}, false
	}
	wake, ok := m.queue.Wake()
	if deadline, held := m.waits.pods.Deadline(); held && (!ok || deadline < wake) {
		wake, ok = deadline, true
	}
	if until, spared := m.effects.sparedUntil(); spared && (!ok || until < wake) {
		wake, ok = until, true
	}
	return wake.Std(), ok
}

// Effects returns the effects of decisions that have no result yet, in the order of the decisions.
func (m *Machine) Effects() []Effect { return m.EffectsAfter(0) }

// AskedBy returns the decision that asked for the pod's outstanding effect of that kind; 0 if there is none.
func (m *Machine) AskedBy(uid types.UID, kind EffectKind) uint64 {
	return m.effects.decisionOf(uid, kind)
}

// EffectsAfter returns the part of Effects that was decided after entry seq.
func (m *Machine) EffectsAfter(seq uint64) []Effect {
	effects := m.effects.after(seq)
	for i := range effects {
		x := &effects[i]
		switch x.Kind {
		case GiveBack:
			x.Devices = m.idleClaims(x)
		case Bind:
			if p := m.cluster.Pods().Get(x.UID); p != nil && p.Stage == cluster.Binding {
				x.Devices = p.Devices
			} else {
				x.Devices = m.cluster.Devices().Unresolved(x.UID)
			}
		}
	}
	return effects
}

// GangEntity returns the queue's entity of the gang with that name: the gang itself, or all gangs that are admitted
// with it. It returns nil if no member of the gang is in the queue.
func (m *Machine) GangEntity(namespace, name string) *queue.Entity {
	g := m.cluster.Gangs().Named(namespace, name)
	if g == nil || m.queue == nil {
		return nil
	}
	m.pick()
	return m.queue.Get(keyOfGang(g))
}

// Schedules reports whether the running configuration has a profile for the pod's scheduler name. Other pods
// take up room, and nothing is decided on them.
func (m *Machine) Schedules(pod *v1.Pod) bool { return m.profiles.of(pod) != nil }

// NominatedNode returns the node that the pod is nominated to, "" for none.
func (m *Machine) NominatedNode(uid types.UID) string { return m.nominated.nodeOf(uid) }

// AnyKept reports whether any room on a node is kept for a nominated pod.
func (m *Machine) AnyKept() bool { return m.nominated.AnyNominated() }

// KeptOn returns the pods for which room is kept on a node, in the order in which they were nominated to it.
func (m *Machine) KeptOn(node string) (pods []*cluster.Pod) {
	for _, info := range m.nominated.NominatedPodsForNode(node) {
		pods = append(pods, m.cluster.Pods().Get(info.GetPod().UID))
	}
	return pods
}

// KeepsFrom reports whether the room that is kept for a nominated pod is not free for another one. It is the rule of
// every scheduling cycle.
func (m *Machine) KeepsFrom(kept, other *cluster.Pod) bool {
	return m.nominated.KeepsFrom(kept.Object, other.Object)
}

// KeptFromPod returns the room that is kept from a pod for the first of its lane, nil if there is none.
func (m *Machine) KeptFromPod(uid types.UID) *backfill.KeptRoom {
	if m.backfill == nil {
		return nil
	}
	return m.backfill.KeptFrom(uid)
}
