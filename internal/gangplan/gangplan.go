// Package gangplan searches for nodes for all members of a gang that differ from one another. It is used when the usual
// order of the members, one after the other on the node with the highest score, gave some of them no node.
//
// Members that plugins treat alike are a kind. The search first places the kind that is hardest to place: the kind with
// the fewest feasible nodes, then the one with the largest dominant request. It tries nodes with little room beside the
// request first. If a member finds no node, the search goes back and tries other nodes. It skips what cannot lead to a
// placement: equal nodes, equal members, and nodes that have too little for the remaining members of a kind together.
//
// The profile's own plugins filter the nodes of a framework.Rehearsal. If members depend on one
// another (affinity, spread), the search also tries other orders of the kinds.
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

// minSteps is the least limit of the steps of a search. Each node adds stepsOfNode to it for each kind, so that the
// first look at all nodes leaves most of the steps.
const (
	minSteps    = 20_000
	stepsOfNode = 4
	// maxSeen bounds the states that a search of members that depend on one another remembers.
	maxSeen = 10_000
)

// Search is a search for nodes for members of a gang.
type Search struct {
	// Rehearsal is the world without the members. The search adds members to it, and takes them off again unless it
	// has found a placement.
	Rehearsal *framework.Rehearsal
	// Needed is the number of members to place, at most all of them.
	Needed int
	// Limit is the limit of steps, 0 for the default, which depends on the nodes.
	Limit int64
	// Accepts reports whether the placed members are enough; nil for a gang to which only their number matters.
	Accepts func(placed []Place) bool

	ctx       context.Context
	kinds     []*kind
	resources []v1.ResourceName
	dependent bool
	seen      map[string]bool // the states from which there is no placement, of members that depend on one another
	placed    []Place
	left      int // members of all kinds that are still to place and are not given up
	steps     int64
	limit     int64
	stopped   bool
}

// Place is a member and its node.
type Place struct {
	Pod  *cluster.Pod
	Node string
	kind int // the number of its kind
}

// Unequal reports whether the members are of several kinds, or depend on one another. Otherwise the usual order finds a
// placement if there is one.
func Unequal(members []*cluster.Pod) bool {
	if len(members) < 2 {
		return false
	}
	kinds, dependent := kindsOf(members)
	return len(kinds) > 1 || dependent
}

// Searchable reports whether a rehearsal knows all that matters to the members. It does not know devices and volumes
// that earlier members would take.
func Searchable(members []*cluster.Pod) bool {
	return !slices.ContainsFunc(members, func(m *cluster.Pod) bool {
		return len(m.Object.Spec.ResourceClaims) > 0
	})
}

// Find searches for nodes. The places are in an order in which every filter passes; nil if there are none. The result
// says whether that is certain.
func (s *Search) Find(ctx context.Context, members []*cluster.Pod) ([]Place, eventlog.PlanResult, int64) {
	s.ctx, s.left, s.seen = ctx, len(members), map[string]bool{}
	s.kinds, s.dependent = kindsOf(members)
	s.findResources(members)
	s.limit = minSteps
	for _, k := range s.kinds {
		if !s.look(k) {
			return nil, eventlog.PlanUnknown, s.steps
		}
	}
	if s.limit = s.Limit; s.limit == 0 {
		s.limit = max(minSteps, s.steps*stepsOfNode)
	}
	switch {
	case s.place():
		return s.placed, eventlog.PlanFound, s.steps
	case s.stopped:
		return nil, eventlog.PlanUnknown, s.steps
	}
	return nil, eventlog.PlanNone, s.steps
}

// findResources finds the resources that members request, and each kind's requests of them.
func (s *Search) findResources(members []*cluster.Pod) {
	s.resources = room.ResourcesOf(members)
	for _, k := range s.kinds {
		for i := range k.pod.Spec.Containers {
			k.ports = k.ports || slices.ContainsFunc(k.pod.Spec.Containers[i].Ports,
				func(p v1.ContainerPort) bool { return p.HostPort != 0 })
		}
	}
	for _, k := range s.kinds {
		for _, name := range s.resources {
			k.requests = append(k.requests, k.members[0].Amount(name))
		}
	}
}

// look finds the feasible nodes of a kind. It returns false at the limit of steps, and after an error.
func (s *Search) look(k *kind) bool {
	list, filtered, ok := s.Rehearsal.Feasible(s.ctx, k.pod)
	s.steps += int64(filtered)
	if !ok {
		s.stopped = true
		return false
	}
	k.nodes = make(map[string]fwk.NodeInfo, len(list))
	k.dominant = 0
	for _, info := range list {
		k.nodes[info.Node().Name] = info
		for i, name := range s.resources {
			if free := s.free(info, name); k.requests[i] > 0 && free > 0 {
				k.dominant = max(k.dominant, cluster.Percent(k.requests[i], free))
			}
		}
	}
	return true
}

// free returns a node's free amount of a resource.
func (s *Search) free(info fwk.NodeInfo, name v1.ResourceName) int64 {
	offered, taken := cluster.AmountOn(info, name)
	return offered - taken
}

// place places the members that are left. It returns false if that is not possible, and after the last step.
func (s *Search) place() bool {
	if len(s.placed)+s.left < s.Needed {
		return false
	}
	if s.left == 0 {
		return len(s.placed) >= s.Needed && (s.Accepts == nil || s.Accepts(s.placed))
	}
	if s.steps > s.limit {
		s.stopped = true
		return false
	}
	if s.dependent {
		return s.placeDependent()
	}
	k := s.hardest()
	if len(s.placed)+s.left-k.left+s.capacity(k) < s.Needed {
		return false
	}
	var excluded []string
	for {
		node := s.best(k)
		if node == "" {
			break
		}
		if s.put(k, node) {
			return true
		}
		if s.stopped {
			return false
		}
		// No placement has another member of this kind on this node, or on one that equals it.
		for _, equal := range s.equalTo(k, node) {
			k.excluded[equal] = true
			excluded = append(excluded, equal)
		}
	}
	given := k.left
	k.left, s.left = 0, s.left-given
	found := s.place() // without the rest of this kind, if the others are enough
	if k.left, s.left = given, s.left+given; found {
		return true
	}
	for _, node := range excluded {
		delete(k.excluded, node)
	}
	return false
}

// placeDependent is place for members that depend on one another. Every kind may come next, and nodes are tried in each
// order.
func (s *Search) placeDependent() bool {
	if state := s.state(); s.seen[state] {
		return false
	} else if s.seen[state] = true; len(s.seen) > maxSeen {
		s.stopped = true
		return false
	}
	kinds := slices.DeleteFunc(slices.Clone(s.kinds), func(k *kind) bool { return k.left == 0 })
	nodes := map[*kind][]string{}
	for _, k := range kinds {
		if !s.look(k) {
			return false
		}
		nodes[k] = s.ordered(k)
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(len(nodes[a]), len(nodes[b])), cmp.Compare(b.dominant, a.dominant))
	})
	for _, k := range kinds {
		for _, node := range nodes[k] {
			if s.put(k, node) {
				return true
			}
			if s.stopped {
				return false
			}
		}
	}
	if len(s.placed) >= s.Needed {
		return s.Accepts == nil || s.Accepts(s.placed)
	}
	return false
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

// hardest returns the kind to place next: the one with the fewest nodes for each of its members, then the one with the
// largest dominant request.
func (s *Search) hardest() (hardest *kind) {
	least := 0
	for _, k := range s.kinds {
		if k.left == 0 {
			continue
		}
		n := 0
		// any order: they are counted
		for name := range k.nodes {
			if !k.excluded[name] {
				n++
			}
		}
		if hardest == nil || n < least || n == least && k.dominant > hardest.dominant {
			hardest, least = k, n
		}
	}
	return hardest
}

// capacity returns the number of members of a kind that its nodes have room for, by their requests alone.
func (s *Search) capacity(k *kind) (n int) {
	// any order: a sum
	for name, info := range k.nodes {
		if !k.excluded[name] {
			n += s.takes(k, info)
		}
	}
	return n
}

// takes returns how many members of a kind a node has room for, at most all that are left.
func (s *Search) takes(k *kind, info fwk.NodeInfo) int {
	n := int64(k.left)
	for i, name := range s.resources {
		if k.requests[i] > 0 {
			n = min(n, s.free(info, name)/k.requests[i])
		}
	}
	if k.ports {
		n = min(n, 1)
	}
	return int(max(0, n))
}

// best returns the node that a member of a kind should go to, "" if there is none. It is the node with the least room
// beside the member, then the first by name.
func (s *Search) best(k *kind) (best string) {
	var least int64
	// any order: ties go to the first by name
	for name, info := range k.nodes {
		if k.excluded[name] {
			continue
		}
		rest := s.rest(k, info)
		if best == "" || rest < least || rest == least && name < best {
			best, least = name, rest
		}
	}
	return best
}

// rest returns the part of a node that is left beside a member of a kind, as a sum of the resources' percentages.
func (s *Search) rest(k *kind, info fwk.NodeInfo) (rest int64) {
	for i, name := range s.resources {
		offered, taken := cluster.AmountOn(info, name)
		if offered > 0 && (k.requests[i] > 0 || name != v1.ResourcePods) {
			rest += cluster.Percent(offered-taken-k.requests[i], offered)
		}
	}
	return rest
}

// ordered returns the feasible nodes of a kind, in the order of best.
func (s *Search) ordered(k *kind) []string {
	type candidate struct {
		name string
		rest int64
	}
	var list []candidate
	// any order: sorted right below
	for name, info := range k.nodes {
		list = append(list, candidate{name, s.rest(k, info)})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rest, b.rest), strings.Compare(a.name, b.name))
	})
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	return names
}

// equalTo returns the nodes that equal a node for all members that are left, itself included. The same kinds may use
// them, and they have the same free amounts.
func (s *Search) equalTo(k *kind, node string) []string {
	want := s.signature(node)
	equal := []string{node}
	// any order: all are excluded
	for name := range k.nodes {
		if name != node && !k.excluded[name] && s.signature(name) == want {
			equal = append(equal, name)
		}
	}
	return equal
}

func (s *Search) signature(node string) string {
	var b strings.Builder
	for _, k := range s.kinds {
		info, ok := k.nodes[node]
		if k.left == 0 {
			continue
		}
		fmt.Fprintf(&b, "%v%v ", ok, k.excluded[node])
		if ok {
			for _, name := range s.resources {
				fmt.Fprintf(&b, "%d ", s.free(info, name))
			}
			fmt.Fprintf(&b, "%v ", len(info.GetUsedPorts()) > 0 && k.ports)
		}
	}
	return b.String()
}

// put places a member of a kind on a node, and then the rest. It takes the member off again if that is not possible.
func (s *Search) put(k *kind, node string) bool {
	m := k.members[k.next]
	if s.Rehearsal.AddPod(m.InfoOn(node)) != nil {
		return false
	}
	k.next, k.left, s.left = k.next+1, k.left-1, s.left-1
	s.placed = append(s.placed, Place{m, node, k.number})
	before := s.refresh(node)
	if s.place() {
		return true
	}
	s.placed = s.placed[:len(s.placed)-1]
	k.next, k.left, s.left = k.next-1, k.left+1, s.left+1
	if s.Rehearsal.RemovePod(m.InfoOn(node)) != nil {
		s.stopped = true
	}
	for i, each := range s.kinds {
		if s.dependent {
			continue
		}
		if before[i] {
			info, err := s.Rehearsal.Node(node)
			if err != nil {
				s.stopped = true
				return false
			}
			each.nodes[node] = info
		} else {
			delete(each.nodes, node)
		}
	}
	return false
}

// refresh filters a node again for all kinds after it got a member. It returns which kinds could use the node before.
func (s *Search) refresh(node string) (before []bool) {
	if s.dependent {
		return nil // each step finds the nodes again
	}
	for _, k := range s.kinds {
		_, was := k.nodes[node]
		before = append(before, was)
		if !was {
			continue
		}
		if k.left == 0 {
			continue
		}
		s.steps++
		if !s.Rehearsal.Fits(s.ctx, k.pod, node) {
			delete(k.nodes, node)
		} else if info, err := s.Rehearsal.Node(node); err == nil {
			k.nodes[node] = info
		}
	}
	return before
}
