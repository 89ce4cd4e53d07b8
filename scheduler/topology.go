package scheduler

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// Gangs whose members' nodes must, or had better, have one value of a label: a domain.

// topology searches for the domains of gangs, and keeps which of them an attempt has failed in (cluster.Group.Avoids).
type topology struct {
	cluster   *cluster.State
	queue     *queue.Queue
	nominated *nominations
	table     *room.Table
	now       func() eventlog.Time
	guard     *searchGuard
}

// domain is the nodes that have the same value of each of some labels.
type domain struct {
	labels []string
	value  string // their values, joined
	nodes  map[string]bool
	names  []string

	// nodes and names are nil for a domain that is only compared with others.
	outer   string // the key of the domain of a composite that it is within, "" for none
	indexes []int  // its nodes, by their indexes in the cluster's list
}

// domainsBy returns the domains of the nodes by the labels, by value; nodes without one of the labels are in none.
func (t *topology) domainsBy(labels []string) []*domain {
	byValue := map[string]*domain{}
	nodes, _ := t.cluster.Nodes().List()
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
	d, why := g.machine.topology.domainOf(group)
	return g.machine.topology.limitTo(d, why)
}

// domainOf returns where the gang's next member may go, nil for anywhere; why says that there is none.
func (t *topology) domainOf(g *cluster.Group) (d *domain, why string) {
	return (&domainSearch{topology: t, g: g}).find()
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
	// rehearsed are the nodes of members that count as waiting there.
	rehearsed map[*cluster.Pod]string
}

// avoids reports whether an attempt has failed in the domain.
func (s *domainSearch) avoids(d *domain) bool { return s.g.Avoids(d.key()) || d.key() == s.failed }

// nodeOf returns a member's node, "" for none.
func (s *domainSearch) nodeOf(p *cluster.Pod) string { return cmp.Or(s.rehearsed[p], p.Node) }

func (s *domainSearch) countedOf(g *cluster.Group) gang.Gang {
	counted := g.Gang()
	for _, p := range s.released {
		if p.Group == g {
			counted.Release()
		}
	}
	// any order: a count
	for p := range s.rehearsed {
		if p.Group == g {
			counted.Waiting++
		}
	}
	return counted
}

// limitTo says that members may go to the nodes of a domain; to all if it has all, or is none.
func (t *topology) limitTo(d *domain, why string) framework.Domain {
	nodes, _ := t.cluster.Nodes().List()
	if why != "" || d == nil || len(d.names) == len(nodes) {
		return framework.Domain{Refusal: why}
	}
	return framework.Domain{Limited: true, Nodes: d.names}
}

// note writes into a decision on a gang with a topology which domain its cycle was limited to. It also writes whether
// there is another one, if this cycle ends the attempt and leaves no member on a node. Apply reads both from the
// Decision and searches for neither, so that a later version with a better search recovers the same state.
func (t *topology) note(d *eventlog.Decision, p *cluster.Pod) {
	g := p.Group
	if g == nil || d.Group == "" || !g.HasTopology() {
		return
	}
	tried, _ := t.domainOf(g)
	if tried == nil {
		return
	}
	d.Domain = tried.key()
	refused := d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error
	if !refused || g.Avoids(d.Domain) {
		return
	}
	s := &domainSearch{topology: t, g: g, strict: true, failed: d.Domain}
	for _, uid := range d.Rejected {
		s.released = append(s.released, t.cluster.Pods().Get(uid))
	}
	for _, each := range g.Unit() {
		if counted := s.countedOf(each); !counted.Untouched() {
			return // others stay on nodes
		}
	}
	next, why := s.find()
	d.Elsewhere = why == "" && (next == nil || !s.avoids(next))
}

// judge runs after a cycle of a gang that must stay within a domain. It notes whether the tried domain is to be
// avoided: the attempt has failed and has left no member on a node. Once a member is bound or being bound, no domain is
// avoided: the other members go where that one is.
func (t *topology) judge(key queue.Key, g *cluster.Group, d *eventlog.Decision) {
	switch e := t.queue.Get(key); {
	case g.Placed() > 0:
		g.AvoidNothing()
	case e != nil && e.State() != queue.InFlight && e.Failed() && g.Count(gang.OnNodes) == 0:
		t.avoid(key, g, d)
	}
}

// avoid notes that an attempt has failed in a domain. If there is another one to try, or the members may go anywhere,
// the gang is active again at once; otherwise all domains are to be tried again next time. Example: of the racks a, b
// and c only a and b have enough free. The attempt in a fails: a is avoided, and b is tried at once. It fails too:
// nothing is avoided any more, and the gang waits for an event. An attempt without a domain may end where one has
// failed before: there is no other domain then. If the next attempt has a plan, the domains stay avoided: otherwise
// plans that cannot be carried out would be made without end.
func (t *topology) avoid(key queue.Key, g *cluster.Group, d *eventlog.Decision) {
	other := d.Domain != "" && !g.Avoids(d.Domain)
	if other {
		g.Avoid(d.Domain)
	}
	switch {
	case other && d.Elsewhere:
		t.queue.Activate(key)
	case d.Plan.Result != eventlog.PlanFound:
		g.AvoidNothing()
	}
}

// holding returns the domain in which members of g have nodes, nil if there is none. If there are several, it is the
// one with the most members, and of these the first. Members that are leaving their nodes do not count.
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

// toTry reports whether a cycle could place the pod, in the current attempt, or in the next one if that has failed.
func (s *domainSearch) toTry(p *cluster.Pod) bool {
	switch {
	case s.rehearsed[p] != "":
		return false
	case s.failed == "":
		return p.Stage == cluster.Pending && s.queue.IsToTry(p.Object.UID)
	case slices.Contains(s.released, p):
		return p.MayBePlaced()
	}
	return p.Stage == cluster.Pending && s.queue.Ready(p.Object.UID)
}
