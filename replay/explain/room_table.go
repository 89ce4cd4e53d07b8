package explain

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// roomTable splits the free room of nodes into the part that the asking pods can use, and the rest by cause.
type roomTable struct {
	c         *cluster.State
	nodes     []fwk.NodeInfo
	a         *askers
	givesBack func(*cluster.Pod) bool
	kept      *keptRoom
	free      map[v1.ResourceName][]int64 // by node, without kept room
	domains   *domainTable
}

// left returns, by node, how much of a resource is free and not kept.
func (t *roomTable) left(name v1.ResourceName) []int64 {
	if free, known := t.free[name]; known {
		return free
	}
	free := make([]int64, len(t.nodes))
	for i, n := range t.nodes {
		back := holdersOn(t.c, n, name, t.givesBack, holders{})
		allocatable, requested := cluster.AmountOn(n, name)
		free[i] = max(0, allocatable-requested+back)
		free[i] -= t.kept.on(n, name, free[i], holders{})
	}
	t.free[name] = free
	return free
}

// places returns how many pods of a kind find room on a node, as far as resources are concerned. Devices are not
// counted.
func (t *roomTable) places(k *asker, i int) int64 {
	if n, known := k.places[i]; known {
		return n
	}
	least := int64(1) << 40
	for _, need := range k.needs {
		if need.Amount > 0 && !t.asDevices(i, need.Resource) {
			least = min(least, t.left(need.Resource)[i]/need.Amount)
		}
	}
	k.places[i] = least
	return least
}

// asDevices reports whether a node may have the resource as devices, which are not counted.
func (t *roomTable) asDevices(i int, name v1.ResourceName) bool {
	allocatable, _ := cluster.AmountOn(t.nodes[i], name)
	return allocatable == 0 && t.c.Devices().Stands(name)
}

// takers returns the kinds that request a resource and that a node takes, as far as resources are not concerned. If
// there is none, why says it. all is the number of kinds that request it.
func (t *roomTable) takers(name v1.ResourceName, i int) (kinds []*asker, all int, why nodeCause) {
	node := t.nodes[i].Node()
	if len(t.a.kinds) == 0 {
		if plugin := t.a.refused.of(node.Name); plugin != "" {
			return nil, 0, nodeCause{answer.RefusedByPlugin, plugin}
		}
		return nil, 0, nodeCause{}
	}
	asks := t.a.kinds
	if some := requesting(asks, name); len(some) > 0 {
		asks = some
	}
	for _, k := range asks {
		c := t.a.on(k, node)
		if c == (nodeCause{}) {
			kinds = append(kinds, k)
		} else if why == (nodeCause{}) {
			why = c
		}
	}
	if len(kinds) > 0 {
		why = nodeCause{}
	}
	return kinds, len(asks), why
}

// requesting returns the kinds that request some of a resource.
func requesting(kinds []*asker, name v1.ResourceName) (some []*asker) {
	for _, k := range kinds {
		if k.pod.Amount(name) > 0 {
			some = append(some, k)
		}
	}
	return some
}

// nodeShare divides the free amount of a node: the usable part, and the rest with its cause.
type nodeShare struct {
	takes  bool // as far as resources are not concerned
	usable int64
	rest   int64
	why    nodeCause
}

// share divides the free amount of a node. With anywhere, the node's domain does not matter.
func (t *roomTable) share(name v1.ResourceName, i int, anywhere bool) nodeShare {
	free := t.left(name)[i]
	kinds, all, why := t.takers(name, i)
	if d := t.domains; why == (nodeCause{}) && d != nil && !anywhere {
		switch {
		case d.of[i] == "":
			why = nodeCause{answer.NoDomain, d.by}
		case d.of[i] != d.chosen:
			why = nodeCause{answer.OtherDomain, d.by}
		}
	}
	if why != (nodeCause{}) {
		return nodeShare{rest: free, why: why}
	}
	s := nodeShare{takes: true, usable: free}
	least := int64(0)
	for _, k := range kinds {
		if amount := k.pod.Amount(name); least == 0 || amount > 0 && amount < least {
			least = amount
		}
	}
	if least == 0 { // no pod requests it
		return s
	}
	if free < least {
		s.usable, s.rest, s.why = 0, free, nodeCause{cause: answer.Fragmented}
	} else if lacks := t.lackedBy(kinds, name, i); lacks != "" {
		s.usable, s.rest, s.why = 0, free, nodeCause{answer.LacksOther, string(lacks)}
	} else if t.a.together && all == 1 {
		s.rest, s.why = free%least, nodeCause{cause: answer.Fragmented}
		s.usable -= s.rest
	}
	return s
}

// lackedBy returns the resource that keeps all kinds from a node that has enough of another one; "" if the node has
// room for one of them.
func (t *roomTable) lackedBy(kinds []*asker, name v1.ResourceName, i int) (lacks v1.ResourceName) {
	for _, k := range kinds {
		if t.places(k, i) > 0 {
			return ""
		}
		for _, need := range k.needs {
			if lacks == "" && need.Resource != name && need.Amount > t.left(need.Resource)[i] &&
				!t.asDevices(i, need.Resource) {
				lacks = need.Resource
			}
		}
	}
	return lacks
}

// split fills in the usable part of a resource's free amount, and the rest by cause. none is true if no node takes the
// pods even when it is empty.
func (t *roomTable) split(u *answer.ResourceUse) (none bool) {
	byCause, stranded := parts{}, int64(0)
	none = true
	free := t.left(u.Resource)
	for i, n := range t.nodes {
		s := t.share(u.Resource, i, false)
		if s.takes && free[i] > u.LargestFree {
			u.LargestFree, u.LargestFreeNode = free[i], n.Node().Name
		}
		none = none && !s.takes
		u.Usable += s.usable
		byCause.add(s.why, n.Node().Name, s.rest)
		if s.why.cause == answer.LacksOther {
			stranded += s.rest
		}
	}
	u.OnTaking = u.Usable + stranded
	u.Unusable, u.UnusableOthers = byCause.ranked()
	u.Domains = t.byDomain(u.Resource, func(i int) int64 { return t.share(u.Resource, i, true).usable })
	return none
}
