package ledger

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// book is the ledger of one part of a log, under way. Entries are noted when they are applied. When time passes, the
// book settles: it visits the objects that the entries of the last instant changed.
type book struct {
	m     *scheduler.Machine
	by    By
	only  []string      // see Options
	since uint64        // events are counted behind this entry
	now   eventlog.Time // of the last entry, or the start
	last  eventlog.Time // up to which time is booked

	edges  edges
	bucket int // of the time right behind last

	rows      map[string]*row
	common    *row // of time that no pod holds, unless the rows are of nodes
	resources []v1.ResourceName
	index     map[v1.ResourceName]int

	nodeTable
	runs     map[types.UID]*run
	gangs    map[*cluster.Group]*gangRuns
	suspects map[*cluster.Group]bool // gangs whose counts may have changed

	ended   []end
	held    map[types.UID][]piece // time of pods whose end is not known yet
	fallen  map[uint64]bool       // decisions that evict the rest of a gang, and not for others
	atStart map[types.UID]bool    // the pods that existed when the part began
	fates   map[types.UID]Column  // of those, what became of them first

	line   line
	shapes shapes
	splits splits
	all    bool // the next settle visits everything
}

// nodeTable has the nodes, and the changes of them that are not booked yet.
type nodeTable struct {
	nodes    []*node // in the order in which they came; a place is never used again
	nodeAt   map[string]int
	journal  journal
	changed  uint64 // the version of the nodes that is booked
	listed   uint64
	dirty    map[int]bool // nodes to look at
	keeping  map[int]bool // nodes that keep room for nominated pods
	newNames []string     // names of nodes that may be new
}

func newBook(m *scheduler.Machine, o *Options) *book {
	b := &book{m: m, by: o.By, only: o.Only, edges: o.Edges, rows: map[string]*row{}, index: map[v1.ResourceName]int{},
		nodeTable: nodeTable{nodeAt: map[string]int{}, dirty: map[int]bool{}, keeping: map[int]bool{}},
		runs:      map[types.UID]*run{},
		gangs:     map[*cluster.Group]*gangRuns{}, suspects: map[*cluster.Group]bool{}, held: map[types.UID][]piece{},
		fallen: map[uint64]bool{}, atStart: map[types.UID]bool{}, fates: map[types.UID]Column{}, all: true}
	b.common = &row{}
	b.line = newLine(b)
	b.shapes = shapes{versions{1, 1}, map[*kind]offer{}}
	b.splits = newSplits(b)
	return b
}

// kept returns the group in which a group is booked.
func (b *book) kept(group string) string {
	if b.only != nil && !slices.Contains(b.only, group) {
		return Others
	}
	return group
}

// row returns the row of a group.
func (b *book) row(group string) *row {
	group = b.kept(group)
	r := b.rows[group]
	if r == nil {
		r = &row{name: group}
		b.rows[group] = r
	}
	return r
}

// resource returns the index of a resource.
func (b *book) resource(name v1.ResourceName) int {
	i, known := b.index[name]
	if !known {
		i = len(b.resources)
		b.index[name] = i
		b.resources = append(b.resources, name)
	}
	return i
}

// amounts translates amounts, by the index of the resource. The number of pods is no resource here.
func (b *book) amounts(r fwk.Resource) []int64 {
	var scalars []v1.ResourceName
	// any order: sorted right below
	for name := range r.GetScalarResources() {
		scalars = append(scalars, name)
	}
	slices.Sort(scalars)
	names := append([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}, scalars...)
	if r.GetEphemeralStorage() > 0 {
		names = append(names, v1.ResourceEphemeralStorage)
	}
	for _, name := range names {
		b.resource(name)
	}
	out := make([]int64, len(b.resources))
	for _, name := range names {
		out[b.index[name]] = cluster.AmountOf(r, name)
	}
	return out
}

// at returns an amount; slices from before a resource was known are shorter.
func at(amounts []int64, i int) int64 {
	if i < len(amounts) {
		return amounts[i]
	}
	return 0
}

// begin takes in the state at the start. The Decisions that ask for outstanding evictions are in asked.
func (b *book) begin(start eventlog.Time, asked map[uint64]*eventlog.Decision) {
	b.now, b.last, b.since = start, start, b.m.Seq()
	b.bucket = b.edges.bucket(start)
	// any order: a set
	for seq, d := range asked {
		b.fallen[seq] = d.Outcome == eventlog.Evicted
	}
	for _, p := range b.m.Cluster().Pods().All() {
		b.atStart[p.Object.UID] = true
	}
	b.settle()
}

// take takes in an entry and applies it.
func (b *book) take(e eventlog.Entry) error {
	if e.Time > b.now {
		b.settle()
		b.now = e.Time
	}
	b.noteEnds(e)
	b.note(e.Payload)
	d, _ := e.Payload.(*eventlog.Decision)
	var mayPlace []queue.Key
	if d != nil {
		b.decided(e.Seq, d)
		mayPlace = b.line.mayPlace(d)
	}
	if err := b.m.Apply(e); err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	b.note(e.Payload)
	b.line.notePlaced(mayPlace)
	return nil
}

// decided counts evictions for others.
func (b *book) decided(seq uint64, d *eventlog.Decision) {
	if len(d.Victims) == 0 {
		return
	}
	b.fallen[seq] = d.Outcome == eventlog.Evicted
	if d.Outcome == eventlog.Evicted {
		return
	}
	pods := b.m.Cluster().Pods()
	by := pods.Get(d.UID)
	for _, uid := range d.Victims {
		if victim := pods.Get(uid); victim != nil && by != nil {
			b.row(b.by.of(b.m.Cluster(), victim)).suffered++
			if b.by.kind != byNode {
				b.row(b.by.of(b.m.Cluster(), by)).caused++
			}
		}
	}
}

// note notes what an entry may change. It is called before and after the entry is applied.
func (b *book) note(p eventlog.Payload) {
	switch p := p.(type) {
	case *eventlog.EpochStarted:
		b.all = true
	case *eventlog.Tick:
		b.line.regate = true
	case *eventlog.Upserted:
		b.noteObject(p.Resource, p.Object.GetNamespace(), p.Object.GetName(), p.Object.GetUID())
	case *eventlog.Deleted:
		b.noteObject(p.Resource, p.Namespace, p.Name, p.UID)
	case *eventlog.BindResult:
		b.notePod(p.UID)
	case *eventlog.EvictResult:
		b.notePod(p.UID)
	case *eventlog.Decision:
		b.notePod(p.UID)
		for _, uids := range [][]types.UID{p.Allowed, p.Rejected, p.Victims} {
			for _, uid := range uids {
				b.notePod(uid)
			}
		}
		b.noteNode(p.Nominated)
		for i := range p.Nominations {
			b.noteNode(p.Nominations[i].Node)
			b.noteNode(b.m.NominatedNode(p.Nominations[i].UID))
		}
	}
}

func (b *book) noteObject(res eventlog.Resource, namespace, name string, uid types.UID) {
	switch res {
	case eventlog.Pods:
		b.notePod(uid)
		if other := b.m.Cluster().Pods().Named(namespace, name); other != nil && other.Object.UID != uid {
			b.notePod(other.Object.UID)
		}
	case eventlog.Nodes:
		b.newNames = append(b.newNames, name)
		b.line.regate = true
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		b.line.touch(fwk.PodGroupKey(namespace, name))
		if g := b.m.Cluster().Gangs().Named(namespace, name); g != nil {
			b.suspects[g] = true
			b.all = b.all || g.Parent() != nil
		}
		b.line.regate = true
	case eventlog.CompositePodGroups, eventlog.PriorityClasses:
		b.all = true
	case eventlog.PersistentVolumeClaims:
		b.shapes.claims++
		b.line.regate = true
	case eventlog.DeviceClasses:
		b.shapes.changed()
		b.line.regate = true
	default:
		b.line.regate = true
	}
}

// notePod notes a pod, its gang and its entity.
func (b *book) notePod(uid types.UID) {
	b.line.pods = append(b.line.pods, uid)
	if q := scheduler.QueueAsIs(b.m); q != nil {
		if e := q.Find(uid); e != nil {
			b.line.touch(e.Key())
		}
	}
	if p := b.m.Cluster().Pods().Get(uid); p != nil && p.Group != nil {
		b.suspects[p.Group] = true
		b.line.touch(fwk.PodGroupKey(p.Group.Namespace, p.Group.Name))
	}
	b.noteNode(b.m.NominatedNode(uid))
}

func (b *book) noteNode(name string) {
	if i, known := b.nodeAt[name]; known && name != "" {
		b.dirty[i] = true
	}
}

// settle books the time up to now, and takes in the changes by the entries of this instant.
func (b *book) settle() {
	b.pass()
	if b.all {
		b.splits.drop()
	}
	b.lookAtNodes()
	b.lookAtGangs()
	b.settleEnds()
	b.line.settle()
	b.splits.choose()
	b.all = false
}

// pass lets time pass up to now. Idle time is booked at each edge, because a split adds time up.
func (b *book) pass() {
	for b.bucket < len(b.edges) && b.edges[b.bucket] <= b.now {
		edge := b.edges[b.bucket]
		b.splits.pass(edge - b.last)
		b.splits.flush()
		b.last = edge
		b.bucket++
	}
	b.splits.pass(b.now - b.last)
	b.last = b.now
}

// close books the time up to the end of the part.
func (b *book) close(end eventlog.Time) {
	b.settle()
	b.now = max(end, b.now)
	b.pass()
	// any order: each is booked by itself
	for _, r := range b.runs {
		b.fold(r)
	}
	for _, n := range b.nodes {
		b.flush(n)
	}
	b.splits.drop()
}

// keyOf returns the entity of a pod in the queue; the zero Key for none.
func (b *book) keyOf(uid types.UID) (key queue.Key) {
	if q := scheduler.QueueAsIs(b.m); q != nil {
		if e := q.Find(uid); e != nil {
			return e.Key()
		}
	}
	return key
}
