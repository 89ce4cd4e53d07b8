package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/outlook"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Gangs whose members' nodes must, or had better, have one value of a label: a domain.

// topology searches for the domains of gangs.
type topology struct {
	cluster   *cluster.State
	queue     *queue.Queue
	projector *outlook.Projector
	now       func() eventlog.Time
}

// domain is the nodes that have the same value of each of some labels.
type domain struct {
	labels []string
	value  string // their values, joined
	nodes  map[string]bool
	names  []string
}

// domainsBy returns the domains of the nodes by the labels, by value; nodes without one of the labels are in none.
func (t *topology) domainsBy(labels []string) []*domain {
	byValue := map[string]*domain{}
	nodes, _ := t.cluster.List()
	for _, info := range nodes {
		value, ok := valueOf(info.Node(), labels)
		if !ok {
			continue
		}
		d := byValue[value]
		if d == nil {
			d = &domain{labels: labels, value: value, nodes: map[string]bool{}}
			byValue[value] = d
		}
		d.nodes[info.Node().Name] = true
		d.names = append(d.names, info.Node().Name)
	}
	domains := make([]*domain, 0, len(byValue))
	// any order: sorted right below
	for _, d := range byValue {
		domains = append(domains, d)
	}
	slices.SortFunc(domains, func(a, b *domain) int { return strings.Compare(a.value, b.value) })
	return domains
}

func valueOf(node *v1.Node, labels []string) (value string, ok bool) {
	values := make([]string, len(labels))
	for i, label := range labels {
		if values[i], ok = node.Labels[label]; !ok {
			return "", false
		}
	}
	return strings.Join(values, ", "), true
}

// key tells domains of different labels apart.
func (d *domain) key() string { return strings.Join(d.labels, ",") + "=" + d.value }

// Domain implements coscheduling.Groups.
func (g *gangsOfProfile) Domain(group *cluster.Group) coscheduling.Domain {
	d, why := g.machine.topology.domainOf(group, false)
	return g.machine.topology.limitTo(d, why)
}

// domainOf returns where the gang's next member may go, nil for anywhere. What is required holds for all members; within
// that, what is preferred does if the domain has room for all that the gang still needs, the first label that can have it.
// Domains in which an attempt has failed come last, or, if strict, not at all. why says that there is none.
func (t *topology) domainOf(g *cluster.Group, strict bool) (d *domain, why string) {
	required, preferred := g.Topology()
	var within *domain
	if len(required) > 0 {
		if within, why = t.requiredDomain(g, required, true); why != "" && !strict {
			within, why = t.requiredDomain(g, required, false)
		}
		if why != "" {
			return nil, why
		}
	}
	for i := range preferred {
		labels := slices.Concat(required, preferred[i:i+1])
		if d := t.preferredDomain(g, labels, within); d != nil {
			return d, ""
		}
	}
	return within, ""
}

// limitTo says that members may go to the nodes of a domain; to all if it has all, or is none.
func (t *topology) limitTo(d *domain, why string) coscheduling.Domain {
	nodes, _ := t.cluster.List()
	if why != "" || d == nil || len(d.names) == len(nodes) {
		return coscheduling.Domain{Refusal: why}
	}
	return coscheduling.Domain{Limited: true, Nodes: d.names}
}

// requiredDomain returns the domain in which members have nodes, or else the smallest that has room for the gang and is
// not avoided; why says that there is none.
func (t *topology) requiredDomain(g *cluster.Group, labels []string, avoiding bool) (d *domain, why string) {
	domains := t.domainsBy(labels)
	if d := holding(g, domains); d != nil {
		return d, ""
	}
	if g.Placed()+g.Waiting() > 0 {
		return nil, fmt.Sprintf("pod group %s must stay within one %s, and the nodes of its members have none", g, strings.Join(labels, ", "))
	}
	if len(domains) == 0 {
		return nil, fmt.Sprintf("pod group %s must stay within one %s, and no node has that label", g, strings.Join(labels, ", "))
	}
	pods := t.lackingOf(g)
	best, most := domains[0], -1
	d = t.smallestFor(pods, domains, func(d *domain, fit int) bool {
		if fit > most {
			best, most = d, fit
		}
		return !avoiding || !g.Avoids(d.key())
	})
	if d != nil {
		return d, ""
	}
	return nil, fmt.Sprintf("pod group %s must stay within one %s: the best, %s, has room for %d of the %d members it needs",
		g, strings.Join(labels, ", "), best.value, most, len(pods))
}

// preferredDomain is requiredDomain of what is only preferred: nil if no domain has room for all that the gang needs.
func (t *topology) preferredDomain(g *cluster.Group, labels []string, within *domain) *domain {
	domains := t.domainsBy(labels)
	if within != nil {
		domains = slices.DeleteFunc(domains, func(d *domain) bool { return !within.nodes[d.names[0]] })
	}
	pods := t.lackingOf(g)
	if d := holding(g, domains); d != nil {
		if t.fitIn(pods, d) == len(pods) {
			return d
		}
		return nil
	}
	if g.Placed()+g.Waiting() > 0 {
		return nil
	}
	return t.smallestFor(pods, domains, func(d *domain, _ int) bool { return !g.Avoids(d.key()) })
}

// avoidDomain is called when an attempt has failed and left nothing of the gang on nodes: if there is another domain to
// try, the gang is tried there at once, or anywhere if that will do; otherwise all are to be tried again next time. An attempt
// anywhere may end in a domain that failed before: there is no other, then.
func (m *Machine) avoidDomain(key queue.Key, g *cluster.Group, failed *domain) {
	if failed != nil && !g.Avoids(failed.key()) {
		g.Avoid(failed.key())
		if d, why := m.topology.domainOf(g, true); why == "" && (d == nil || !g.Avoids(d.key())) {
			m.queue.Activate(key)
			return
		}
	}
	g.AvoidNothing()
}

// holding returns the domain in which members of g have nodes: of several the one that has most of them, of equals the
// first; nil for none. Those that are leaving theirs do not count.
func holding(g *cluster.Group, domains []*domain) *domain {
	if g.Placed()+g.Waiting() == 0 {
		return nil
	}
	var best *domain
	most := 0
	members := g.Members()
	for _, d := range domains {
		n := 0
		for _, p := range members {
			if d.nodes[p.Node] && !p.Leaving() {
				n++
			}
		}
		if n > most {
			best, most = d, n
		}
	}
	return best
}

// smallestFor returns, of the domains with room for all pods, the one with room for the fewest; of equals the first; nil
// if there is none. may is told how many of the pods find room in a domain, and says whether it may be chosen.
func (t *topology) smallestFor(pods []*cluster.Pod, domains []*domain, may func(d *domain, fit int) bool) *domain {
	type sized struct {
		d    *domain
		room int
	}
	var enough []sized
	for _, d := range domains {
		fit := t.fitIn(pods, d)
		if may(d, fit) && fit == len(pods) {
			enough = append(enough, sized{d, t.roomIn(pods, d)})
		}
	}
	if len(enough) == 0 {
		return nil
	}
	return slices.MinFunc(enough, func(a, b sized) int {
		return cmp.Or(cmp.Compare(a.room, b.room), strings.Compare(a.d.value, b.d.value))
	}).d
}

// lackingOf returns the members that g has still to place to have its minimum, by name; the next one if it has it.
func (t *topology) lackingOf(g *cluster.Group) []*cluster.Pod {
	k := max(1, g.Min()-g.Assigned()-g.Waiting())
	var pods []*cluster.Pod
	for _, p := range g.Members() {
		if p.Stage == cluster.Pending && len(pods) < k && t.queue.Untried(p.Object.UID) {
			pods = append(pods, p)
		}
	}
	return pods
}

// fitIn counts how many of the pods, one after the other, find room in the domain now.
func (t *topology) fitIn(pods []*cluster.Pod, d *domain) int {
	return len(t.projector.Outlook(t.now(), pods, d.names).PlacesNow())
}

// roomIn counts how many pods like the first one find room in the domain now.
func (t *topology) roomIn(pods []*cluster.Pod, d *domain) int {
	if len(pods) == 0 {
		return 0
	}
	return t.projector.Outlook(t.now(), pods[:1], d.names).RoomForFirst()
}
