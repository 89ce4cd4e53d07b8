package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/outlook"
	"github.com/rollcall-sched/rollcall/queue"
)

// Gangs whose members' nodes must, or had better, have one value of a label: a domain.

// topology searches for the domains of gangs, and keeps which of them an attempt has failed in (cluster.Group.Avoids).
type topology struct {
	cluster   *cluster.State
	queue     *queue.Queue
	rules     *rules // of the running epoch
	projector *outlook.Projector
	now       func() eventlog.Time
	find      func(s *domainSearch) (d *domain, why string) // (*domainSearch).find, or that of another behaviour
}

// domain is the nodes that have the same value of each of some labels.
type domain struct {
	labels []string
	value  string // their values, joined
	nodes  map[string]bool
	names  []string

	// From behaviour 4 on. Of a domain that is only compared with others, nodes and names are nil.
	outer   string // the key of the domain of a composite that it is within, "" for none
	indexes []int  // its nodes, by their indexes in the cluster's list
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

// domainsWithin returns the parts of domainsBy's domains that are within the nodes of these names, nil for all.
func (t *topology) domainsWithin(labels, within []string) (parts []*domain) {
	domains := t.domainsBy(labels)
	if within == nil {
		return domains
	}
	for _, d := range domains {
		part := &domain{labels: d.labels, value: d.value, nodes: map[string]bool{}}
		for _, name := range within {
			if d.nodes[name] {
				part.nodes[name] = true
				part.names = append(part.names, name)
			}
		}
		if len(part.names) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
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

// key distinguishes domains of different labels.
func (d *domain) key() string {
	own := strings.Join(d.labels, ",") + "=" + d.value
	if d.outer != "" {
		return d.outer + "; " + own
	}
	return own
}

// Domain implements framework.Gangs.
func (g *gangsOfProfile) Domain(group *cluster.Group) framework.Domain {
	d, why := g.machine.topology.domainOf(group, false)
	return g.machine.topology.limitTo(d, why)
}

// domainOf returns where the gang's next member may go, nil for anywhere; why says that there is none.
func (t *topology) domainOf(g *cluster.Group, strict bool) (d *domain, why string) {
	return t.find(&domainSearch{topology: t, g: g, strict: strict})
}

// domainSearch looks for the domain of a gang's members, in the cluster as it is or as it will be.
type domainSearch struct {
	*topology
	g *cluster.Group
	// strict: domains in which an attempt has failed do not come last, but not at all.
	strict bool
	// failed is a domain that counts as one in which an attempt has failed, "" for none. released are pods that count
	// as taken off their nodes at the end of that attempt.
	failed   string
	released []*cluster.Pod
}

// find returns the domain, nil for anywhere. What is required holds for all members; within that, what is preferred
// does if the domain has room for all that the gang still needs, the first label that can have it. Domains in which an
// attempt has failed come last, or not at all. why says that there is none.
func (s *domainSearch) find() (d *domain, why string) {
	required, preferred := s.g.Topology()
	var within *domain
	if len(required) > 0 {
		if within, why = s.required(required, true); why != "" && !s.strict {
			within, why = s.required(required, false)
		}
		if why != "" {
			return nil, why
		}
	}
	for i := range preferred {
		labels := slices.Concat(required, preferred[i:i+1])
		if d := s.preferred(labels, within); d != nil {
			return d, ""
		}
	}
	return within, ""
}

// avoids reports whether an attempt has failed in the domain.
func (s *domainSearch) avoids(d *domain) bool { return s.g.Avoids(d.key()) || d.key() == s.failed }

// counted returns the gang's counts, without the members that count as taken off their nodes.
func (s *domainSearch) counted() gang.Gang { return s.countedOf(s.g) }

func (s *domainSearch) countedOf(g *cluster.Group) gang.Gang {
	counted := g.Gang()
	for _, p := range s.released {
		if p.Group == g {
			counted.Release()
		}
	}
	return counted
}

// untouched reports whether no member of the gang has a node.
func (s *domainSearch) untouched() bool {
	counted := s.counted()
	return counted.Untouched()
}

// holding returns the domain in which the gang's members have nodes, nil for none.
func (s *domainSearch) holding(domains []*domain) *domain {
	if s.untouched() {
		return nil
	}
	return holding(s.g, domains)
}

// limitTo says that members may go to the nodes of a domain; to all if it has all, or is none.
func (t *topology) limitTo(d *domain, why string) framework.Domain {
	nodes, _ := t.cluster.List()
	if why != "" || d == nil || len(d.names) == len(nodes) {
		return framework.Domain{Refusal: why}
	}
	return framework.Domain{Limited: true, Nodes: d.names}
}

// required returns the domain in which members have nodes, or else the smallest that has room for the gang and is
// not avoided; why says that there is none.
func (s *domainSearch) required(labels []string, avoiding bool) (d *domain, why string) {
	g, domains := s.g, s.domainsBy(labels)
	if d := s.holding(domains); d != nil {
		return d, ""
	}
	if !s.untouched() {
		return nil, fmt.Sprintf(
			"pod group %s must stay within one %s, and the nodes of its members have none",
			g,
			strings.Join(labels, ", "),
		)
	}
	if len(domains) == 0 {
		return nil, fmt.Sprintf(
			"pod group %s must stay within one %s, and no node has that label",
			g,
			strings.Join(labels, ", "),
		)
	}
	pods, wanted := s.lacking()
	best, most := domains[0], -1
	d = s.smallestFor(pods, wanted, domains, func(d *domain, fit int) bool {
		if fit > most {
			best, most = d, fit
		}
		return !avoiding || !s.avoids(d)
	})
	if d != nil {
		return d, ""
	}
	return nil, fmt.Sprintf(
		"pod group %s must stay within one %s: the best, %s, has room for %d of the %d members it needs",
		g,
		strings.Join(labels, ", "),
		best.value,
		most,
		wanted,
	)
}

// preferred is required of what is only preferred: nil if no domain has room for all that the gang needs.
func (s *domainSearch) preferred(labels []string, within *domain) *domain {
	domains := s.domainsBy(labels)
	if within != nil {
		domains = slices.DeleteFunc(domains, func(d *domain) bool { return !within.nodes[d.names[0]] })
	}
	pods, wanted := s.lacking()
	if d := s.holding(domains); d != nil {
		if s.fitIn(pods, wanted, d) == wanted {
			return d
		}
		return nil
	}
	if !s.untouched() {
		return nil
	}
	return s.smallestFor(pods, wanted, domains, func(d *domain, _ int) bool { return !s.avoids(d) })
}

// note writes into a decision on a gang with a topology which domain its cycle was limited to, and whether another one
// is there if this cycle ends the attempt and leaves no member on a node. Apply reads both from the Decision and looks
// for neither, so that a later version with a better search recovers the same state.
func (t *topology) note(d *eventlog.Decision, p *cluster.Pod) {
	g := p.Group
	if !t.rules.recordsFacts() || g == nil || d.Group == "" || !g.HasTopology() {
		return
	}
	tried, _ := t.domainOf(g, false)
	if tried == nil {
		return
	}
	d.Domain = tried.key()
	refused := d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error
	if !refused || g.Composite() != nil && !t.rules.knowsLevels() || g.Avoids(d.Domain) {
		return
	}
	s := &domainSearch{topology: t, g: g, strict: true, failed: d.Domain}
	for _, uid := range d.Rejected {
		s.released = append(s.released, t.cluster.Pod(uid))
	}
	for _, each := range g.Unit() {
		if counted := s.countedOf(each); !counted.Untouched() {
			return // others stay on nodes
		}
	}
	next, why := t.find(s)
	d.Elsewhere = why == "" && (next == nil || !s.avoids(next))
}

// triedBy returns the domain that the cycle of a decision was limited to, "" for none. It is asked before the decision
// is applied.
func (t *topology) triedBy(g *cluster.Group, d *eventlog.Decision) string {
	if t.rules.recordsFacts() {
		return d.Domain
	}
	if tried, _ := t.domainOf(g, false); tried != nil {
		return tried.key()
	}
	return ""
}

// judge notes, after a cycle of a gang that must stay within a domain has been applied, whether the domain that it
// tried is to be avoided: it is if the attempt has failed and has left no member on a node. Once a member is placed for
// good, no domain is avoided any more: the other members go where that one is.
func (t *topology) judge(key queue.Key, g *cluster.Group, tried string, d *eventlog.Decision) {
	switch e := t.queue.Get(key); {
	case g.Placed() > 0:
		g.AvoidNothing()
	case e != nil && e.State() != queue.InFlight && e.Failed() && g.Count(gang.OnNodes) == 0:
		t.avoid(key, g, tried, d)
	}
}

// avoid notes that an attempt has failed in a domain. If there is another one to try, or the members may go anywhere,
// the gang is active again at once; otherwise all domains are to be tried again next time. Example: of the racks a, b
// and c only a and b have enough free. The attempt in a fails: a is avoided, and b is tried at once. It fails too:
// nothing is avoided any more, and the gang waits for an event. An attempt without a domain (tried is "") may end where
// one has failed before: there is no other domain then.
func (t *topology) avoid(key queue.Key, g *cluster.Group, failed string, d *eventlog.Decision) {
	if failed == "" || g.Avoids(failed) {
		g.AvoidNothing()
		return
	}
	g.Avoid(failed)
	elsewhere := d.Elsewhere
	if !t.rules.recordsFacts() {
		next, why := t.domainOf(g, true)
		elsewhere = why == "" && (next == nil || !g.Avoids(next.key()))
	}
	if elsewhere {
		t.queue.Activate(key)
	} else {
		g.AvoidNothing()
	}
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

// smallestFor returns, of the domains with room for as many of the pods as are wanted, the one with room for the
// fewest; of equals the first; nil if there is none. may is told how many of the pods find room in a domain, and says
// whether it may be chosen.
func (s *domainSearch) smallestFor(
	pods []*cluster.Pod, wanted int, domains []*domain, may func(d *domain, fit int) bool,
) *domain {
	type sized struct {
		d    *domain
		room int
	}
	var enough []sized
	for _, d := range domains {
		fit := s.fitIn(pods, wanted, d)
		if may(d, fit) && fit == wanted {
			enough = append(enough, sized{d, s.roomIn(pods, d)})
		}
	}
	if len(enough) == 0 {
		return nil
	}
	return slices.MinFunc(enough, func(a, b sized) int {
		return cmp.Or(cmp.Compare(a.room, b.room), strings.Compare(a.d.value, b.d.value))
	}).d
}

// lacking returns the members that the gang may still place, by name, and how many of them are wanted: as many as it
// lacks, or one if it has its minimum. An attempt passes over members that find no node, and so does the search. Up to
// behaviour 2 only the first so many were looked at, and a gang of which one of these fits nowhere found no domain.
func (s *domainSearch) lacking() (pods []*cluster.Pod, wanted int) {
	counted := s.counted()
	k := max(1, counted.Lacking(gang.OnNodes))
	for _, p := range s.g.Members() {
		if (len(pods) < k || s.rules.passesOver()) && s.untried(p) {
			pods = append(pods, p)
		}
	}
	return pods, min(k, len(pods))
}

// untried reports whether a cycle could place the pod: in the attempt under way, or in the next one if that has failed.
func (s *domainSearch) untried(p *cluster.Pod) bool {
	switch {
	case s.failed == "":
		return p.Stage == cluster.Pending && s.queue.Untried(p.Object.UID)
	case slices.Contains(s.released, p):
		if s.rules.knowsLevels() {
			return s.cluster.MayBePlaced(p)
		}
		return p.Object.DeletionTimestamp == nil
	}
	return p.Stage == cluster.Pending && s.queue.Ready(p.Object.UID)
}

// outlook is the domain as it matters for the demand, without the pods that are released.
func (s *domainSearch) outlook(demand outlook.Demand, d *domain) *outlook.Outlook {
	o := s.projector.Outlook(s.now(), demand, d.names)
	for _, p := range s.released {
		o.Free(p)
	}
	return o
}

// fitIn counts how many of the pods find room in the domain, one after the other, up to those that are wanted.
func (s *domainSearch) fitIn(pods []*cluster.Pod, wanted int, d *domain) int {
	demand := outlook.DemandOf(pods...)
	if s.rules.passesOver() {
		demand.Parts[0].Wanted, demand.Passing = wanted, true
	}
	return len(s.outlook(demand, d).PlacesNow())
}

// roomIn counts how many pods like the first one find room in the domain.
func (s *domainSearch) roomIn(pods []*cluster.Pod, d *domain) int {
	if len(pods) == 0 {
		return 0
	}
	return s.outlook(outlook.DemandOf(pods[0]), d).RoomForFirst()
}
