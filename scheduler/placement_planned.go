package scheduler

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/queue"
)

// The domain of a gang with a plan, and the domain that a gang prefers.

// plannedIn returns the domain of the plan for the gangs of a level, nil if they have none.
func (p *placement) plannedIn(l level, domains []*domain) *domain {
	var planned []int
	for _, g := range l.gangs() {
		planned = append(planned, p.plannedFor(g)...)
	}
	for _, d := range domains {
		if slices.ContainsFunc(planned, func(at int) bool { return slices.Contains(d.indexes, at) }) {
			return d
		}
	}
	return nil
}

// plannedFor returns the indexes of the nodes in the gang's plan, nil if it has none.
func (p *placement) plannedFor(g *cluster.Group) (nodes []int) {
	for _, m := range g.Members() {
		if at, known := p.at[p.nominated.nodeOf(m.Object.UID)]; known && queue.Planned(p.queue, m.Object.UID) {
			nodes = append(nodes, at)
		}
	}
	return nodes
}

// preferred returns the domain by the first label that a gang prefers for which it can have one: it has room for all
// that the gang needs, or its members are there. If the gang has a plan, all planned nodes must be in the domain. It
// returns within, the gang's domain, if there is none.
func (p *placement) preferred(g *cluster.Group, within *domain) *domain {
	required, preferred := g.Topology()
	planned := p.plannedFor(g)
	outer := within.path()
	if len(required) > 0 {
		outer = within.outer
	}
	for i := range preferred {
		labels, l := slices.Concat(required, preferred[i:i+1]), level{gang: g}
		domains := p.split(labels, within, outer)
		domains = slices.DeleteFunc(domains, func(d *domain) bool {
			return slices.ContainsFunc(planned, func(at int) bool { return !slices.Contains(d.indexes, at) })
		})
		own, _, held := p.holdingOf(l, labels, domains)
		if held && own != nil && (p.avoiding && p.avoids(own) || !p.try(l, own).enough) {
			own = nil
		}
		if !held {
			own, _ = p.best(l, domains)
		}
		if own != nil {
			return own
		}
	}
	return within
}
