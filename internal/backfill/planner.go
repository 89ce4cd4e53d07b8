package backfill

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// View is the read-only view of the scheduler for a Planner. It shows the state at the time of the call.
type View interface {
	// Nodes, Pods and Gangs return these parts of the cluster's state.
	Nodes() *cluster.Nodes
	Pods() *cluster.Pods
	Gangs() *cluster.Gangs
	// AmountOn returns a node's amount of a resource, and the amount that its pods request. See cluster.State.AmountOn.
	AmountOn(info fwk.NodeInfo, name v1.ResourceName) (allocatable, requested int64)

	// Now returns the time of the last entry applied.
	Now() eventlog.Time
	// Versions returns counters that differ from those before whenever an answer that depends on the nodes and the
	// running pods may have changed.
	Versions() Versions
	// Changed is cluster.State.Changed.
	Changed(k cluster.Kind) uint64
	// Free returns how much of a resource all nodes have free; ok is false if no node offers it.
	Free(name v1.ResourceName) (amount int64, ok bool)

	// FirstInLane returns the first entity in a lane for which wanted returns yes, nil if there is none. If wanted
	// returns passed for an entity, the entity is skipped until something about it changes, or ForgetPassed is called.
	FirstInLane(lane string, wanted func(e *queue.Entity) (yes, passed bool)) *queue.Entity
	// ForgetPassed makes FirstInLane look at all entities of a lane again. That is a memo only.
	ForgetPassed(lane string)
	// Entities returns how many entities there are.
	Entities() int
	// Entity returns the entity of that key, nil if there is none.
	Entity(key queue.Key) *queue.Entity
	// IsPicked reports whether the entity is active only because it was picked for a retry since the last entry. That
	// is a memo. In the state the entity waits for its retry, and nothing that follows from the state may depend on the
	// memo.
	IsPicked(e *queue.Entity) bool
	// InFlight reports whether an attempt on some entity is under way.
	InFlight() bool

	// KeyOf returns the key of the entity that a pod belongs to.
	KeyOf(p *cluster.Pod) queue.Key
	// HasEnough reports whether an entity waits only for members beyond what it needs.
	HasEnough(e *queue.Entity) bool
	// Needed returns the pods of an entity of which some must be placed at once for its minimum. ok is false if too few
	// are ready.
	Needed(e *queue.Entity) (_ room.Demand, ok bool)
	// LeastNeeds returns the least amounts that an entity needs, and the longest time that its pods declare to hold
	// them. The time is 0 if one of the pods declares nothing. ok is false if it is not known which of its gangs will
	// be placed.
	LeastNeeds(e *queue.Entity) (needs []Need, longest time.Duration, ok bool)
	// DomainsNow returns the nodes of each domain that an entity may use. All its pods must go to one of the domains,
	// and its waiting pods stay on their nodes. limited is false if the pods may go to any nodes.
	DomainsNow(e *queue.Entity) (nodes [][]string, limited bool)
	// LacksRoom reports whether an attempt on the entity would certainly fail now for want of room.
	LacksRoom(e *queue.Entity) bool

	// EntityOf returns the entity that a pod belongs to, nil if it is not in the queue.
	EntityOf(p *cluster.Pod) *queue.Entity
	// StandsBefore reports whether a comes before b in the order of the queue.
	StandsBefore(a, b *queue.Entity) bool

	// Nominated returns the entities that have nominated pods, each once.
	Nominated() []*queue.Entity
	// KeptFor returns the nominations of the pods of an entity.
	KeptFor(key queue.Key) []Kept
	// KeptNodes returns the nodes on which room is kept for nominated pods, by name.
	KeptNodes() []string
	// KeptOn returns the pods for which room is kept on a node, in the order in which they were nominated.
	KeptOn(node string) []*cluster.Pod
}

// Kept is a nomination: room that is kept for a pod on a node.
type Kept struct {
	Pod  *cluster.Pod
	Node string
	// Own reports whether a Decision nominated the pod, and not its object alone.
	Own bool
	// Counts reports whether room is kept now: the pod has no node, and nothing keeps it out of the queue.
	Counts bool
}

// Versions are the versions of a memo of which pods are booked or nominated where, and when they end. While they are
// the same, and until the next pod has run as long as it declared, every Outlook is the same.
type Versions struct{ Room, Placements, Allowed, Nominations uint64 }

// Need is an amount of a resource.
type Need struct {
	Resource v1.ResourceName
	Amount   int64
}

// Lane is the rules of one lane, under StrictFIFO or Backfill. It has the entities of one profile.
type Lane struct {
	// Name is the profile's name.
	Name string
	// Backfill lets entities pass the first one that do not delay it. Without it no entity passes the first:
	// StrictFIFO.
	Backfill bool
	// Hold is the time, under Backfill, for which the first lets others pass while it is not known when there will be
	// room for it.
	Hold time.Duration
}

// Planner plans the lanes of one configuration. It is not safe for concurrent use.
type Planner struct {
	view         View
	table        *room.Table
	lanes        map[string]*lane // by name
	backfilled   []string         // the lanes under Backfill, by name
	reservations map[string]*reservation
	overtakes    map[overtakes]bool     // a memo, see ForgetOvertaking
	passed       map[string]*passedOver // by shape: a memo
	recalled     uint64                 // View.Version when recallPassed looked
	changes      uint64
	counts       int // how often the pods of a node were gone through, see Work
	looked       int // how many nominations were examined to find overtaking entities, see Looked
}

// lane is a Lane with the memos kept for it.
type lane struct {
	Lane
	blocked bool                     // a memo of blocks, of the last entry that left nothing in flight
	looked  lookedAt                 // a memo of Propose
	room    map[queue.Key]*roomToGet // a memo of roomIsNotIt
}

// New returns a Planner without reservations for some lanes.
func New(view View, table *room.Table, lanes ...Lane) *Planner {
	p := &Planner{
		view: view, table: table,
		lanes: map[string]*lane{}, reservations: map[string]*reservation{},
		overtakes: map[overtakes]bool{}, passed: map[string]*passedOver{},
	}
	for _, l := range lanes {
		p.lanes[l.Name] = &lane{Lane: l}
		if l.Backfill {
			p.backfilled = append(p.backfilled, l.Name)
		}
	}
	slices.Sort(p.backfilled)
	return p
}

// HasLane reports whether there is a lane of that name.
func (p *Planner) HasLane(lane string) bool { return p.lanes[lane] != nil }

// HasLanes reports whether there are lanes.
func (p *Planner) HasLanes() bool { return len(p.lanes) > 0 }

// Backfilled returns the lanes under Backfill, by name. The slice must not be changed.
func (p *Planner) Backfilled() []string { return p.backfilled }

// Versions returns the View's versions.
func (p *Planner) Versions() Versions { return p.view.Versions() }

// Version returns a counter that changes whenever an answer of Passes, HasRoom or Refusal may have changed. The reason
// may be that a reservation came, changed or ended, or that a lane became blocked or unblocked. It is no state.
func (p *Planner) Version() uint64 { return p.changes }

// ForgetMemos forgets everything that is no state. No later answer differs because of it.
func (p *Planner) ForgetMemos() {
	p.ForgetOvertaking()
	p.table.ForgetMemos()
	// any order: each by itself
	for _, l := range p.lanes {
		l.looked, l.room = lookedAt{}, nil
	}
	p.forgetPassed()
	// any order: each by itself
	for _, r := range p.reservations {
		r.memo = besideMemo{}
	}
}

// Work returns the numbers of Outlooks made, of checks whether their pods find a node each, and of counts of a node's
// pods for the room beside a reservation. Tests bound all three.
func (p *Planner) Work() (outlooks, trials, counts int) {
	outlooks, trials = p.table.Work()
	return outlooks, trials, p.counts
}

// CountedEmpty returns how often pods were counted that fit on a node without its pods. Tests bound it.
func (p *Planner) CountedEmpty() int { return p.table.Counted(room.Empty) }

// CountedCleared returns how often pods were counted that fit on a node without less important pods.
func (p *Planner) CountedCleared() int { return p.table.Counted(room.Evicted(0)) }

// Walked returns how often the pods of a node were gone through to know when there is room for the first of a lane.
// Tests bound it.
func (p *Planner) Walked() int { return p.table.Walked() }
