package ledger

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// node is the state of a node at the last settle of the book.
type node struct {
	name  string
	row   *row
	obj   *v1.Node // nil while it is not there
	down  bool     // not ready, or unreachable
	alloc []int64
	free  []int64
	over  []int64 // requested beyond alloc
	slots int64   // how many more pods it takes
	most  int64   // how many pods it takes when it is empty
	runs  []*run
	since eventlog.Time // not booked since
	kept  bool          // it keeps room for nominated pods
}

// idle returns how much of a resource is idle.
func (n *node) idle(res int) int64 {
	if n.down {
		return 0
	}
	return at(n.free, res)
}

// run is the time of a pod on a node, as long as its amounts, its group and its stage stay the same.
type run struct {
	uid     types.UID
	node    *node
	row     *row
	info    fwk.PodInfo
	pod     *cluster.Pod
	gang    *gangRuns // nil for none
	amounts []int64
	since   eventlog.Time
	partial bool // it is held by an incomplete gang
	seen    bool
}

// gangRuns are the runs of a gang's members.
type gangRuns struct {
	group   *cluster.Group
	partial bool // it has fewer members on nodes than its minimum
	runs    map[types.UID]*run
}

// piece is a past part of the time of a pod whose end is not known yet.
type piece struct {
	row         *row
	amounts     []int64
	from, until eventlog.Time
}

// journal has the places of nodes that changed, in order.
type journal struct {
	places []int32
	first  uint64
}

func (j *journal) end() uint64 { return j.first + uint64(len(j.places)) }

func (j *journal) note(i, nodes int) {
	if keep := 1024 + nodes; len(j.places) > 2*keep {
		j.first += uint64(len(j.places) - keep)
		j.places = append(j.places[:0], j.places[len(j.places)-keep:]...)
	}
	j.places = append(j.places, int32(i))
}

// lookAtNodes finds the nodes that changed, and looks at them.
func (b *book) lookAtNodes() {
	nodes := b.m.Cluster().Nodes()
	list, _ := nodes.List()
	places, now, ok := nodes.ChangedSince(b.changed)
	listed := b.m.Cluster().Changed(cluster.NodeListed)
	if whole := !ok || b.all || listed != b.listed; whole {
		for _, info := range list {
			b.dirty[b.place(info.Node().Name)] = true
		}
		for i := range b.nodes {
			b.dirty[i] = true
		}
	} else {
		for _, at := range places {
			b.dirty[b.place(list[at].Node().Name)] = true
		}
	}
	for _, name := range b.newNames {
		b.noteNode(name)
	}
	b.changed, b.listed, b.newNames = now, listed, b.newNames[:0]
	// any order: a set
	for i := range b.keeping {
		b.dirty[i] = true
	}
	anyKept := b.m.AnyKept()
	known := len(b.resources)
	// any order: each is booked by itself
	for i := range b.dirty {
		b.lookAt(i, anyKept)
	}
	clear(b.dirty)
	if len(b.resources) > known {
		b.splits.drop()
	}
}

// place returns the place of a node, a new one for an unknown name.
func (b *book) place(name string) int {
	i, known := b.nodeAt[name]
	if !known {
		i = len(b.nodes)
		n := &node{name: name, row: b.common, since: b.now}
		if b.by.kind == byNode {
			n.row = b.row(name)
		}
		b.nodes = append(b.nodes, n)
		b.nodeAt[name] = i
	}
	return i
}

// flush books the time of a node since it was booked last, except for the amounts that pods hold and the idle ones.
func (b *book) flush(n *node) {
	from := n.since
	n.since = b.now
	if n.obj == nil {
		return
	}
	for bucket, d := range b.edges.divide(from, b.now) {
		for i := range n.alloc {
			n.row.cell(bucket, i, Capacity).add(n.alloc[i], d)
		}
		for i, over := range n.over {
			if over > 0 {
				n.row.cell(bucket, i, Overcommitted).add(over, d)
			}
			if n.down {
				n.row.cell(bucket, i, Unavailable).add(n.free[i], d)
			}
		}
	}
}

// lookAt takes in the present state of a node.
func (b *book) lookAt(i int, anyKept bool) {
	n := b.nodes[i]
	b.flush(n)
	b.journal.note(i, len(b.nodes))
	info, err := b.m.Cluster().Nodes().Get(n.name)
	if err != nil {
		if n.obj != nil {
			b.shapes.changed()
		}
		n.obj, n.down, n.alloc, n.free, n.over, n.slots, n.kept = nil, false, nil, nil, nil, 0, false
		delete(b.keeping, i)
		b.sweep(n)
		return
	}
	if obj := info.Node(); obj != n.obj {
		before, alloc, most := n.obj, n.alloc, n.most
		n.obj, n.down, n.alloc = obj, isDown(obj), b.amounts(info.GetAllocatable())
		n.most = int64(info.GetAllocatable().GetAllowedPodNumber())
		if before == nil || n.most != most || !slices.Equal(alloc, n.alloc) || !maps.Equal(before.Labels, obj.Labels) {
			b.shapes.changed()
		}
	}
	b.lookAtPods(n, info)
	n.free, n.over = make([]int64, len(b.resources)), make([]int64, len(b.resources))
	for res, name := range b.resources {
		_, requested := cluster.AmountOn(info, name)
		n.free[res] = max(0, at(n.alloc, res)-requested)
		n.over[res] = max(0, requested-at(n.alloc, res))
	}
	n.slots = n.most - int64(len(info.GetPods()))
	n.kept = anyKept && len(b.m.KeptOn(n.name)) > 0
	delete(b.keeping, i)
	if n.kept {
		b.keeping[i] = true
	}
}

// isDown reports whether a node is known to be out of order.
func isDown(obj *v1.Node) bool {
	for i := range obj.Spec.Taints {
		if key := obj.Spec.Taints[i].Key; key == v1.TaintNodeNotReady || key == v1.TaintNodeUnreachable {
			return true
		}
	}
	for i := range obj.Status.Conditions {
		if c := &obj.Status.Conditions[i]; c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			return true
		}
	}
	return false
}

// lookAtPods compares the pods on a node with the runs there.
func (b *book) lookAtPods(n *node, info fwk.NodeInfo) {
	for _, on := range info.GetPods() {
		uid := on.GetPod().UID
		r := b.runs[uid]
		if r != nil && (r.node != n || r.info != on || b.all && r.row != b.row(b.by.of(b.m.Cluster(), r.pod))) {
			b.endRun(r)
			r = nil
		}
		if r == nil {
			r = b.startRun(n, on, uid)
		}
		if r != nil {
			r.seen = true
			b.judge(r)
		}
	}
	b.sweep(n)
}

// sweep ends the runs of a node that were not seen.
func (b *book) sweep(n *node) {
	kept := n.runs[:0]
	for _, r := range n.runs {
		if b.runs[r.uid] != r {
			continue
		}
		if !r.seen {
			b.endRun(r)
			continue
		}
		r.seen = false
		kept = append(kept, r)
	}
	clear(n.runs[len(kept):])
	n.runs = kept
}

func (b *book) startRun(n *node, on fwk.PodInfo, uid types.UID) *run {
	pod := b.m.Cluster().Pods().Get(uid)
	if pod == nil {
		return nil
	}
	r := &run{uid: uid, node: n, row: b.row(b.by.of(b.m.Cluster(), pod)), info: on, pod: pod,
		amounts: b.amounts(on.CalculateResource().Resource), since: b.now}
	b.runs[uid] = r
	n.runs = append(n.runs, r)
	if g := pod.Group; g != nil {
		of := b.gangs[g]
		if of == nil {
			of = &gangRuns{group: g, partial: isPartial(g), runs: map[types.UID]*run{}}
			b.gangs[g] = of
		}
		of.runs[uid], r.gang = r, of
		b.suspects[g] = true
	}
	return r
}

func (b *book) endRun(r *run) {
	b.fold(r)
	delete(b.runs, r.uid)
	if r.gang == nil {
		return
	}
	delete(r.gang.runs, r.uid)
	b.suspects[r.gang.group] = true
	if len(r.gang.runs) == 0 {
		delete(b.gangs, r.gang.group)
	}
}

// fold books the time of a run so far.
func (b *book) fold(r *run) {
	from := r.since
	r.since = b.now
	if from == b.now {
		return
	}
	if r.partial {
		b.edges.enter(piece{r.row, r.amounts, from, b.now}, Incomplete)
		return
	}
	pieces := b.held[r.uid]
	if n := len(pieces); n > 0 && pieces[n-1].until == from && pieces[n-1].row == r.row &&
		&pieces[n-1].amounts[0] == &r.amounts[0] {
		pieces[n-1].until = b.now
		return
	}
	b.held[r.uid] = append(pieces, piece{r.row, r.amounts, from, b.now})
}

// judge finds out whether a run is of an incomplete gang.
func (b *book) judge(r *run) {
	partial := r.pod.Stage == cluster.Waiting || r.gang != nil && r.gang.partial
	if partial != r.partial {
		b.fold(r)
		r.partial = partial
	}
}

// isPartial reports whether a gang has fewer members on nodes than its minimum. Members that ended well count.
func isPartial(g *cluster.Group) bool {
	known := g.Gang()
	return known.Declared && known.Placed()+known.Succeeded < known.Min
}

// lookAtGangs judges the runs of the gangs whose counts may have changed.
func (b *book) lookAtGangs() {
	if b.all {
		// any order: a set
		for g := range b.gangs {
			b.suspects[g] = true
		}
	}
	// any order: each is judged by itself
	for g := range b.suspects {
		of := b.gangs[g]
		if of == nil {
			continue
		}
		if partial := isPartial(g); partial != of.partial || b.all {
			of.partial = partial
			// any order: each is booked by itself
			for _, r := range of.runs {
				b.judge(r)
			}
		}
	}
	clear(b.suspects)
}
