// Package gangplan searches for nodes for all members of a gang that differ from one another. It is used when the usual
// order of the members, one after the other on the node with the highest score, gave some of them no node.
//
// Members that plugins treat alike are a kind. The search first places the kind that is hardest to place: the kind with
// the fewest feasible nodes, then the one with the largest dominant request. It tries nodes with little room beside the
// request first. If a member finds no node, the search goes back and tries other nodes. It skips branches that cannot
// lead to a placement: equal nodes, equal members, and kinds for which all their nodes together have too little.
//
// The profile's own plugins filter the nodes of a framework.Rehearsal. If members depend on one another (affinity,
// spread), the search also tries other orders of the kinds.
//
// A search that reached its limit may be followed by others, which look elsewhere (fill.go).
//
// A Search is a function of the state. It counts steps, not time. Start reading at Search.Find.
package gangplan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/room"
)

const (
	// maxSteps is the number of steps that a search may take after it has filtered all nodes once for each kind.
	maxSteps = 10_000
	// maxDependentSteps is maxSteps for members that depend on one another: all nodes are filtered again after each
	// member.
	maxDependentSteps = 50_000
	// maxFirstSteps bounds these first steps, the number of nodes times the number of kinds. Beyond it nothing is
	// searched.
	maxFirstSteps = 200_000
	// comparesOfStep is the number of comparisons of two nodes that count as a step.
	comparesOfStep = 100
	// maxSeen bounds the states that a search of members that depend on one another remembers.
	maxSeen = 10_000
)

// Search is a search for nodes for members of a gang.
type Search struct {
	// Rehearsal is the world without the members. The search adds members to it, and takes them off again unless it
	// has found a placement.
	Rehearsal *framework.Rehearsal
	// Refused is a member for which no node was found while others had nodes, nil for none. It may only go to the nodes
	// that these have left.
	Refused *cluster.Pod
	Left    []string
	// Domains are the domains that members must stay within, none if the Rehearsal's limit says it all.
	Domains []Domain
	// All: only a placement of all members will do.
	All bool
	// Number is 0 for the first search. The searches after one that reached its limit have the numbers from 1 on. Each
	// looks elsewhere: it fills one node after the other, and then tries nodes in another order.
	Number int
	// Spent are the steps that count toward the limit: the steps of earlier searches for the same members, and after
	// Find also its own.
	Spent int64

	ctx       context.Context
	unit      *Unit
	counts    []int // by gang: its placed members
	lefts     []int // by gang: its members that are still to place and are not given up
	kinds     []*kind
	domains   []*domain
	resources []v1.ResourceName
	names     []string       // of the nodes that a kind may use, in the order of the cluster's list
	nodes     []fwk.NodeInfo // as they are now, by their index in names
	seen      map[string]bool
	placed    []Place
	left      int // the sum of lefts
	dependent bool
	devices   bool // members have claims: nodes with devices do not equal others
	steps     int64
	compares  int64
	limit     int64
	stopped   bool
}

// Place is a member and its node.
type Place struct {
	Pod  *cluster.Pod
	Node string
	kind int // the number of its kind
}

// Find searches for nodes. The places are in an order in which every filter passes; nil if there are none. The result
// says whether that is certain. steps counts the Filter calls of one kind on one node.
func (s *Search) Find(ctx context.Context, members *Members) (_ []Place, _ eventlog.PlanResult, steps int64) {
	s.ctx, s.unit, s.seen = ctx, members.unit, map[string]bool{}
	s.left, s.lefts, s.counts = len(s.unit.Pods), slices.Clone(s.unit.sizes), make([]int, len(s.unit.sizes))
	s.kinds, s.dependent, s.devices = members.split(), members.dependent, members.devices
	s.resources = room.ResourcesOf(s.unit.Pods)
	switch known, hopeless := s.begin(); {
	case !known:
		return nil, eventlog.PlanUnknown, s.steps
	case hopeless && s.Rehearsal.AllKnown():
		return nil, eventlog.PlanNone, s.steps
	}
	s.limit = s.steps + maxSteps - s.Spent
	if s.dependent {
		s.limit = s.steps + maxDependentSteps - s.Spent
	}
	defer func(first int64) { s.Spent += s.steps - first }(s.steps)
	switch {
	case s.Number > 0 && s.fill(), s.place():
		return s.placed, eventlog.PlanFound, s.steps
	case s.stopped || !s.Rehearsal.AllKnown(): // a plugin of others may treat nodes differently that look equal
		return nil, eventlog.PlanUnknown, s.steps
	}
	return nil, eventlog.PlanNone, s.steps
}

// Limited reports whether Find ended at the limit of steps. Another Number may find a placement then.
func (s *Search) Limited() bool { return s.stopped && s.exhausted() }

func (s *Search) exhausted() bool { return s.steps+s.compares/comparesOfStep > s.limit }

// begin finds the feasible nodes of all kinds. known is false if there are too many nodes and kinds, and after an
// error. hopeless says that some kinds have too few nodes.
func (s *Search) begin() (known, hopeless bool) {
	var looked []*kind // of the kinds whose nodes can only become fewer
	refused := slices.IndexFunc(s.kinds, func(k *kind) bool {
		return !k.gains && slices.Contains(k.members, s.Refused)
	})
	if refused >= 0 && len(s.Left) == 0 && !s.reachable(s.kinds[refused]) {
		return true, true
	}
	list, err := s.Rehearsal.Nodes()
	if err != nil || len(list)*len(s.kinds) > maxFirstSteps {
		return false, false
	}
	index := make(map[string]int, len(list))
	for i, info := range list {
		index[info.Node().Name] = i
		s.names, s.nodes = append(s.names, info.Node().Name), append(s.nodes, info)
	}
	s.setDomains(index)
	for _, k := range s.kinds {
		for _, name := range s.resources {
			k.requests = append(k.requests, k.members[0].Amount(name))
		}
	}
	if refused >= 0 {
		k := s.kinds[refused]
		s.lookAt(k, index, s.Left)
		if looked = append(looked, k); !s.reachable(looked...) {
			return true, true
		}
	}
	for i, k := range s.kinds {
		if i == refused {
			continue
		}
		if !s.look(k, index) {
			return false, false
		}
		if !k.gains {
			looked = append(looked, k)
		}
		if !s.reachable(looked...) {
			return true, true
		}
	}
	return true, false
}

// look finds the feasible nodes of a kind, in the order in which they are tried. index has the nodes' indexes. It
// returns false after an error.
func (s *Search) look(k *kind, index map[string]int) bool {
	list, filtered, ok := s.Rehearsal.Feasible(s.ctx, k.pod())
	s.steps += int64(filtered)
	if ok {
		s.use(k, index, list)
	}
	return ok
}

// lookAt is look for a kind that may go to no other nodes than the given ones.
func (s *Search) lookAt(k *kind, index map[string]int, names []string) {
	var list []fwk.NodeInfo
	for i, name := range names {
		at, known := index[name]
		if !known || slices.Contains(names[:i], name) {
			continue
		}
		s.steps++
		if s.Rehearsal.Fits(s.ctx, k.pod(), name) {
			list = append(list, s.nodes[at])
		}
	}
	s.use(k, index, list)
}

// use notes the feasible nodes of a kind.
func (s *Search) use(k *kind, index map[string]int, list []fwk.NodeInfo) {
	k.on, k.order, k.room, k.dominant = make([]use, len(s.nodes)), k.order[:0], 0, 0
	for _, info := range list {
		i := index[info.Node().Name]
		s.nodes[i] = info
		if !s.allowed(k.part, i) {
			continue
		}
		k.on[i] = s.useOf(k, i)
		k.order, k.room = append(k.order, i), k.room+k.on[i].takes
		k.dominant = max(k.dominant, k.on[i].part)
	}
	slices.SortFunc(k.order, k.compare)
}

// place places the members that are left. It returns false if that is not possible, and after the last step.
func (s *Search) place() bool {
	if s.left == 0 {
		return s.enough()
	}
	if !s.reachable() {
		return false
	}
	if s.exhausted() {
		s.stopped = true
		return false
	}
	if s.dependent {
		return s.placeDependent()
	}
	k := s.hardest()
	if s.roomOf(k) < int64(k.left) && !s.reachable(k) {
		return false
	}
	if s.placeOne(k) {
		return true
	}
	if s.stopped {
		return false
	}
	// Perhaps the others are enough without the rest of this kind.
	given := k.left
	s.leave(k, given)
	if s.place() {
		return true
	}
	s.leave(k, -given)
	return false
}

// placeOne places one more member of a kind, and then the rest.
func (s *Search) placeOne(k *kind) bool {
	if d := s.openFor(k.part); d != nil {
		return s.placeIn(d, k)
	}
	var excluded []int
	for len(k.order) > 0 {
		node := k.order[0]
		if s.put(k, node) {
			return true
		}
		if s.stopped {
			return false
		}
		// No placement has another member of this kind on this node, or on one that equals it.
		for _, equal := range s.equalTo(k, node) {
			k.exclude(equal)
			excluded = append(excluded, equal)
		}
	}
	for _, node := range slices.Backward(excluded) {
		k.include(node)
	}
	return false
}

// enough reports whether the placed members are enough.
func (s *Search) enough() bool {
	if s.All {
		return slices.Equal(s.counts, s.unit.sizes)
	}
	return s.unit.enough(s.placed, s.counts)
}

// reachable reports whether the members that are left may be enough, of the given kinds only as many as their nodes
// have room for.
func (s *Search) reachable(limited ...*kind) bool {
	counts := slices.Clone(s.counts)
	for i, n := range s.lefts {
		counts[i] += n
	}
	for _, k := range limited {
		counts[k.part] -= k.left - int(min(s.roomOf(k), int64(k.left)))
	}
	if s.All {
		return slices.Equal(counts, s.unit.sizes)
	}
	return s.unit.reachable(s.counts, counts)
}

// leave gives up so many members of a kind.
func (s *Search) leave(k *kind, n int) {
	k.left, s.left = k.left-n, s.left-n
	s.lefts[k.part] -= n
}

// placeDependent is place for members that depend on one another. At each step it tries every kind as the next one, and
// for each kind its feasible nodes in that kind's order.
func (s *Search) placeDependent() bool {
	if state := s.state(); s.seen[state] {
		return false
	} else if s.seen[state] = true; len(s.seen) > maxSeen {
		s.stopped = true
		return false
	}
	index := make(map[string]int, len(s.names))
	for i, name := range s.names {
		index[name] = i
	}
	kinds := slices.DeleteFunc(slices.Clone(s.kinds), func(k *kind) bool { return k.left == 0 })
	orders := map[*kind][]int{}
	for _, k := range kinds {
		if !s.look(k, index) {
			s.stopped = true
			return false
		}
		orders[k] = slices.Clone(k.order)
	}
	// Members with affinity or spread may find more nodes later, the others will not.
	if !s.reachable(slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool { return k.gains })...) {
		return false
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(len(orders[a]), len(orders[b])), cmp.Compare(b.dominant, a.dominant))
	})
	for _, k := range kinds {
		for _, node := range orders[k] {
			if s.put(k, node) {
				return true
			}
			if s.stopped {
				return false
			}
		}
	}
	return s.enough()
}

// state is a text that is equal for placements of the same numbers of members of each kind on the same nodes.
func (s *Search) state() string {
	list := make([]string, len(s.placed))
	for i, p := range s.placed {
		list[i] = fmt.Sprintf("%s %d", p.Node, p.kind)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// hardest returns the kind to place next: the one with the fewest nodes, then the one with the largest dominant
// request.
func (s *Search) hardest() (hardest *kind) {
	for _, k := range s.kinds {
		if k.left > 0 && (hardest == nil || len(k.order) < len(hardest.order) ||
			len(k.order) == len(hardest.order) && k.dominant > hardest.dominant) {
			hardest = k
		}
	}
	return hardest
}

// equalTo returns the nodes that equal a node for all members that are left, itself included. The same kinds may use
// them, and they have the same free amounts.
func (s *Search) equalTo(k *kind, node int) []int {
	equal := []int{node}
	for _, other := range k.order {
		if k.on[other].rest != k.on[node].rest {
			break // node is the first in order
		}
		if other != node && s.equalNodes(node, other) {
			equal = append(equal, other)
		}
	}
	return equal
}

func (s *Search) equalNodes(a, b int) bool {
	s.compares++
	for _, k := range s.kinds {
		x, y := k.on[a], k.on[b]
		if k.left > 0 && (x.feasible != y.feasible || x.excluded != y.excluded || x.outside != y.outside) {
			return false
		}
	}
	for _, d := range s.domains {
		if d.chosen == open && d.values[a] != d.values[b] {
			return false
		}
	}
	if devices := s.unit.state.Devices(); s.devices && (devices.Has(s.names[a]) || devices.Has(s.names[b])) {
		return false
	}
	for _, name := range s.resources {
		if free(s.nodes[a], name) != free(s.nodes[b], name) {
			return false
		}
	}
	return samePorts(s.nodes[a], s.nodes[b])
}

// put places a member of a kind on a node, and then the rest. It takes the member off again if that is not possible.
func (s *Search) put(k *kind, node int) bool {
	takeOff := s.add(k, node)
	if takeOff == nil {
		return false
	}
	if s.place() {
		return true
	}
	takeOff()
	return false
}

// add places the next member of a kind on a node. takeOff takes it off again; the members come off in the reverse
// order. It is nil if the node cannot take the member.
func (s *Search) add(k *kind, node int) (takeOff func()) {
	m, name := k.members[k.next], s.names[node]
	if s.Rehearsal.AddPod(m.InfoOn(name)) != nil {
		return nil
	}
	s.leave(k, 1)
	k.next, s.counts[k.part] = k.next+1, s.counts[k.part]+1
	s.placed = append(s.placed, Place{m, name, k.number})
	reopen := s.chooseAt(k.part, node)
	undo := s.refresh(node)
	return func() {
		s.placed = s.placed[:len(s.placed)-1]
		k.next, s.counts[k.part] = k.next-1, s.counts[k.part]-1
		s.leave(k, -1)
		if s.Rehearsal.RemovePod(m.InfoOn(name)) != nil {
			s.stopped = true
		}
		undo()
		reopen()
	}
}

// refresh filters a node again for all kinds after it got a member. undo is for the time after the member has gone.
func (s *Search) refresh(node int) (undo func()) {
	s.reread(node)
	if s.dependent {
		return func() { s.reread(node) } // each step finds the feasible nodes again
	}
	before := make([]use, len(s.kinds))
	for i, k := range s.kinds {
		before[i] = k.on[node]
		if !k.on[node].feasible || k.on[node].outside || k.left == 0 {
			continue
		}
		s.steps++
		now := use{excluded: before[i].excluded}
		if s.Rehearsal.Fits(s.ctx, k.pod(), s.names[node]) {
			now = s.useOf(k, node)
			now.excluded = before[i].excluded
		}
		k.set(node, now)
	}
	return func() {
		s.reread(node)
		for i, k := range s.kinds {
			k.set(node, before[i])
		}
	}
}

// reread takes a node as it is now.
func (s *Search) reread(node int) {
	info, err := s.Rehearsal.Node(s.names[node])
	if err != nil {
		s.stopped = true
		return
	}
	s.nodes[node] = info
}
