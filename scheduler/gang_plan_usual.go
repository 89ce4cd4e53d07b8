package scheduler

import (
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gangplan"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// The rehearsal of an attempt in the usual order, and the domains of gangs that are admitted together.

// hasDomains reports whether gangs below a composite, or that name each other, must or should stay within domains.
func hasDomains(g *cluster.Group) bool {
	return g.Composite() != nil && slices.ContainsFunc(g.Unit(), (*cluster.Group).HasTopology)
}

// bounds are the nodes to which a search is limited, nil for all, and the domains that members must stay within.
type bounds struct {
	limit   []string
	domains []gangplan.Domain
}

// boundsOf returns the bounds of one search after the other. The domains that gangs prefer come first.
func (m gangPlans) boundsOf(g *cluster.Group, u *gangplan.Unit) (all []bounds) {
	if !hasDomains(g) {
		for _, limit := range m.limits(g, u) {
			all = append(all, bounds{limit: limit})
		}
		return all
	}
	required, ok := m.domains(g, u)
	if !ok {
		return nil
	}
	most := 0
	for _, each := range g.Unit() {
		_, preferred := each.Topology()
		most = max(most, len(preferred))
	}
	for i := range most {
		domains := slices.Clone(required)
		for _, each := range g.Unit() {
			if _, preferred := each.Topology(); len(preferred) > 0 {
				at := min(i, len(preferred)-1)
				domains = append(domains, gangplan.Domain{Labels: preferred[at : at+1], Gangs: []*cluster.Group{each}})
			}
		}
		all = append(all, bounds{domains: domains})
	}
	return append(all, bounds{domains: required})
}

// domains returns the domains that the gangs of a unit, and the composites above them, must stay within. ok is false if
// members that keep their nodes leave no domain.
func (m gangPlans) domains(g *cluster.Group, u *gangplan.Unit) (domains []gangplan.Domain, ok bool) {
	p := (&domainSearch{topology: m.topology, g: g, released: u.Returning()}).newPlacement()
	var levels []level
	for _, each := range g.Unit() {
		for _, c := range each.Above() {
			if !slices.Contains(levels, level{composite: c}) {
				levels = append(levels, level{composite: c})
			}
		}
		levels = append(levels, level{gang: each})
	}
	for _, l := range levels {
		labels := l.required()
		if len(labels) == 0 {
			continue
		}
		each := gangplan.Domain{Labels: labels, Gangs: l.gangs()}
		d, why, held := p.holdingOf(l, labels, p.split(labels, &domain{indexes: p.all}, ""))
		if why != "" {
			return nil, false
		}
		if held {
			each.Node = p.nodes[d.indexes[0]].Node().Name
		}
		domains = append(domains, each)
	}
	return domains, true
}

// rehearse places the members of a unit in the usual order, within the given nodes. refused is the first one
// without a node, nil if there is none. few says that too few members have nodes.
func (m gangPlans) rehearse(
	profile *framework.Profile,
	g *cluster.Group,
	u *gangplan.Unit,
	first []string,
) (refused *cluster.Pod, few bool) {
	r := m.begin(profile, g, u)
	defer r.End()
	r.Limit(first)
	var places []gangplan.Place
	ctx := preemption.WithBudget(m.ctx)
	for _, p := range m.inUsualOrder(g, u) {
		found := !hasDomains(g) || m.limitToDomain(r, p.Group, places)
		as := *p.Object
		as.Status.NominatedNodeName = ""
		node := ""
		if found {
			node = r.Place(ctx, &as).Node
		}
		if node == "" || r.AddPod(p.InfoOn(node)) != nil {
			if refused == nil {
				refused = p
			}
			continue
		}
		places = append(places, gangplan.Place{Pod: p, Node: node})
	}
	return refused, !u.Enough(places)
}

// inUsualOrder returns the members of a unit in the order in which an attempt tries them.
func (m gangPlans) inUsualOrder(g *cluster.Group, u *gangplan.Unit) []*cluster.Pod {
	if g.Composite() == nil {
		return u.Pods
	}
	pods := slices.Clone(u.Pods)
	slices.SortStableFunc(pods, func(a, b *cluster.Pod) int {
		return strings.Compare(m.entities.partOf(a.Object), m.entities.partOf(b.Object))
	})
	return pods
}

// limitToDomain limits a rehearsal to the domain in which the usual order tries a gang's next member. It returns false
// if there is none.
func (m gangPlans) limitToDomain(r *framework.Rehearsal, g *cluster.Group, places []gangplan.Place) bool {
	s := &domainSearch{topology: m.topology, g: g, rehearsed: map[*cluster.Pod]string{}}
	for _, each := range places {
		s.rehearsed[each.Pod] = each.Node
	}
	d, why := s.find()
	if why != "" {
		return false
	}
	r.Limit(m.topology.limitTo(d, why).Nodes)
	return true
}
