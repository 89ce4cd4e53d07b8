package preemption

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// The number of candidates that have to go is counted, without placing the members again and again, if two conditions
// hold: the members of one gang are alike, and the number that a node takes depends on that node alone. Then they fit
// if the nodes together take as many as are needed. Only nodes matter on which a member fits or a candidate is.
// Example: 5,000 nodes are full, and the four least important pods are on nodes 7, 7, 19 and 30. A gang of three needs
// the first three to go. Only nodes 7 and 19 are examined then, to place the members and to find out who may stay.
//
// It changes no plan: with invariants on, the plan is made both ways and compared.

// counting has the room on nodes while the candidates go one after the other.
type counting struct {
	pl       *plan
	c        *framework.Count
	members  []*cluster.Pod           // the needed members
	leaving  map[string][]fwk.PodInfo // by node: the pods that are on their way out anyway, and waiting members
	nodes    map[string]*counted
	order    []*counted // the same nodes: first those with room, and then in the order of the candidates on them
	base     int        // how many members fit without any candidate's going
	withRoom []string   // the nodes on which some do
	taken    int        // the candidates up to here are in nodes
}

// counted has the room of a node with candidates.
type counted struct {
	name  string
	base  int
	pods  []fwk.PodInfo // of candidates, in their order
	upTo  []int         // by place in pods: the number of the candidate
	takes map[int]int   // by how many of pods are gone
}

// count finds out how many candidates have to go by counting, as fewest does by trying. ok is false if it cannot.
func (pl *plan) count() (n int, enough, ok bool) {
	if !pl.alike || pl.nodesFirst || pl.whole != nil || pl.wantsDevices() || len(pl.awaited) > 0 {
		return 0, false, false
	}
	members, ok := pl.countable()
	if !ok {
		return 0, false, false
	}
	pl.r = pl.p.handle.Rehearse(pl.p.view.GangPlugin(), pl.ours)
	defer pl.r.End()
	c := pl.r.Count(pl.ctx, unplaced(members[0]))
	if c == nil || slices.ContainsFunc(members, func(m *cluster.Pod) bool { return c.ReservedFrom(m.Object) }) {
		return 0, false, false
	}
	k := &counting{pl: pl, c: c, members: members, leaving: map[string][]fwk.PodInfo{}, nodes: map[string]*counted{}}
	if !k.start() {
		return 0, false, false
	}
	n, enough = k.fewest()
	if c.Failed {
		return 0, false, false
	}
	if !enough {
		return 0, false, true
	}
	focus := k.focus(n)
	if !c.Sees(len(focus)) {
		return 0, false, false
	}
	pl.focus = focus
	return n, true, true
}

// countable returns the members that have to be placed; ok is false if that is not a matter of counting.
func (pl *plan) countable() (members []*cluster.Pod, ok bool) {
	g := pl.gangs[0]
	known := g.Gang()
	if len(pl.gangs) != 1 || known.NonStrict || !known.Known() {
		return nil, false
	}
	members, needed := pl.p.view.State().Gangs().Placeable(g), known.LackingAnew()
	if needed <= 0 || len(members) < needed {
		return nil, false
	}
	members = members[:needed]
	return members, !pl.p.view.State().WantsMoreThan(g, members)
}

// start looks at all nodes as they are without the pods that leave anyway. It returns false if they cannot be listed.
func (k *counting) start() bool {
	for _, u := range k.pl.gone {
		for _, v := range u.pods {
			k.leaving[v.Node] = append(k.leaving[v.Node], v.Info())
		}
	}
	for _, m := range k.pl.gangs[0].Members() {
		if m.Stage == cluster.Waiting {
			k.leaving[m.Node] = append(k.leaving[m.Node], m.Info())
		}
	}
	names := k.pl.limit
	if names == nil {
		nodes, err := k.pl.p.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return false
		}
		for _, info := range nodes {
			names = append(names, info.Node().Name)
		}
	}
	for _, name := range names {
		if n := k.room(name, k.leaving[name]); n > 0 {
			k.base += n
			k.withRoom = append(k.withRoom, name)
			k.add(name, n)
		}
	}
	return true
}

// add adds a node.
func (k *counting) add(name string, base int) *counted {
	node := &counted{name: name, base: base, takes: map[int]int{0: base}}
	k.nodes[name], k.order = node, append(k.order, node)
	return node
}

// room returns how many of the members that are needed a node takes without some pods.
func (k *counting) room(node string, gone []fwk.PodInfo) int {
	k.pl.p.planned.Looks++
	return k.c.On(node, gone, len(k.members), func(i int) fwk.PodInfo { return k.members[i].InfoOn(node) })
}

// fewest returns how many candidates, from the first on, have to go. The more candidates have gone, the more room there
// is. So it doubles their number until there is enough, and then searches below that. It examines the nodes of at most
// twice as many candidates as the result has.
func (k *counting) fewest() (n int, enough bool) {
	if k.enough(0) {
		return 0, true
	}
	all, low, high := len(k.pl.candidates), 0, 1
	for ; ; high *= 2 {
		if high = min(high, all); high == low {
			return 0, false
		}
		if k.enough(high) {
			break
		}
		low = high
	}
	for high-low > 1 { // low are not enough, high are
		if middle := (low + high) / 2; k.enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

// enough reports whether the members fit without the first n candidates.
func (k *counting) enough(n int) bool {
	k.take(n)
	sum := k.base
	for _, node := range k.order {
		if sum >= len(k.members) {
			return true
		}
		sum += k.on(node, n) - node.base
	}
	return sum >= len(k.members)
}

// on returns how many of the members a node takes without the first n candidates.
func (k *counting) on(node *counted, n int) int {
	gone, _ := slices.BinarySearch(node.upTo, n)
	takes, known := node.takes[gone]
	if !known {
		takes = k.room(node.name, slices.Concat(k.leaving[node.name], node.pods[:gone]))
		node.takes[gone] = takes
	}
	return takes
}

// take brings the first n candidates to their nodes.
func (k *counting) take(n int) {
	for ; k.taken < n; k.taken++ {
		for _, v := range k.pl.candidates[k.taken].pods {
			if k.pl.limit != nil && !slices.Contains(k.pl.limit, v.Node) {
				continue
			}
			node := k.nodes[v.Node]
			if node == nil {
				node = k.add(v.Node, 0)
			}
			node.pods, node.upTo = append(node.pods, v.Info()), append(node.upTo, k.taken)
		}
	}
}

// focus returns the nodes that members may go to without the first n candidates, sorted: all others take none.
func (k *counting) focus(n int) []string {
	nodes := slices.Clone(k.withRoom)
	for _, u := range k.pl.candidates[:n] {
		for _, v := range u.pods {
			if k.pl.limit == nil || slices.Contains(k.pl.limit, v.Node) {
				nodes = append(nodes, v.Node)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
