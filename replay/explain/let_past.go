package explain

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

const (
	maxPassers  = 20   // are shown
	keptPassers = 1024 // are kept of twice as many or more
	mostPassers = 4096
)

// passers collects the entities that pass.
type passers struct {
	open   bool
	from   answer.Point
	until  *answer.Point
	asks   []v1.ResourceName // what the gang needs
	scarce int               // which of asks is the shortest

	priority int32 // the gang's own

	by         map[holderKey]*answer.Passer
	others     int
	otherPods  int
	othersTook []answer.Amount
}

// observe is called when the gang's condition changes.
func (p *passers) observe(c *cluster.State, g *cluster.Group, at answer.Point, complete, placed bool) {
	switch {
	case p.open && placed:
		p.open, p.until = false, &at
	case !p.open && complete && !placed:
		*p = passers{open: true, from: at, by: map[holderKey]*answer.Passer{}}
		p.measure(c, g)
		for _, member := range g.Members()[:min(1, len(g.Members()))] {
			p.priority = c.Gangs().PriorityOf(member.Object)
		}
		p.othersTook = p.nothing()
	}
}

// measure finds out what the gang needs, and of which of that the smallest part is free.
func (p *passers) measure(c *cluster.State, g *cluster.Group) {
	_, needs := c.GangNeeds(g)
	nodes, _ := c.Nodes().List()
	var worst cluster.Shortfall
	for _, need := range needs {
		if need.Amount <= 0 || need.Resource == resourcePods {
			continue
		}
		short := cluster.Shortfall{Resource: need.Resource, Needed: need.Amount}
		for _, n := range nodes {
			allocatable, requested := cluster.AmountOn(n, need.Resource)
			short.Free += max(0, allocatable-requested)
		}
		p.asks = append(p.asks, need.Resource)
		if len(p.asks) == 1 || worseThan(short.Free, short.Needed, worst.Free, worst.Needed) {
			worst, p.scarce = short, len(p.asks)-1
		}
	}
}

func (p *passers) nothing() []answer.Amount {
	took := make([]answer.Amount, len(p.asks))
	for i, name := range p.asks {
		took[i].Resource = name
	}
	return took
}

// decided takes in a decision on a pod of another entity. state is the gang's state in the queue before it. The gang's
// own pods are not counted.
func (p *passers) decided(m *scheduler.Machine, at answer.Point, d *eventlog.Decision, state queue.State,
	own func(*cluster.Pod) bool) {
	if !p.open {
		return
	}
	if d.Outcome == eventlog.Scheduled {
		p.passed(m, m.Cluster().Pods().Get(d.UID), at, state)
	}
	for _, uid := range d.Allowed {
		if pod := m.Cluster().Pods().Get(uid); !own(pod) {
			p.passed(m, pod, at, state)
		}
	}
}

func (p *passers) passed(m *scheduler.Machine, pod *cluster.Pod, at answer.Point, state queue.State) {
	if pod == nil {
		return
	}
	key := holderOf(pod)
	by := p.by[key]
	if by == nil {
		if len(p.by) == mostPassers {
			p.shrink()
		}
		by = &answer.Passer{Kind: key.kind, Name: key.name, First: at, Meanwhile: state.String(), Took: p.nothing(),
			Priority: m.Cluster().Gangs().PriorityOf(pod.Object)}
		p.by[key] = by
	}
	by.Pods++
	by.Last = at
	requests := pod.Requests()
	for i, name := range p.asks {
		by.Took[i].Amount += cluster.AmountOf(requests, name)
	}
}

// sorted returns the entities that passed, largest first.
func (p *passers) sorted() []*answer.Passer {
	all := make([]*answer.Passer, 0, len(p.by))
	// any order: sorted right below
	for _, by := range p.by {
		all = append(all, by)
	}
	slices.SortFunc(all, func(a, b *answer.Passer) int {
		var more int
		if len(p.asks) > 0 {
			more = cmp.Compare(b.Took[p.scarce].Amount, a.Took[p.scarce].Amount)
		}
		return cmp.Or(more, cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// shrink keeps the largest and adds up the rest.
func (p *passers) shrink() {
	for _, by := range p.sorted()[keptPassers:] {
		p.fold(by)
		delete(p.by, holderKey{by.Kind, by.Name})
	}
}

func (p *passers) fold(by *answer.Passer) {
	p.others++
	p.otherPods += by.Pods
	for i := range by.Took {
		p.othersTook[i].Amount += by.Took[i].Amount
	}
}

// list returns the collected entities; nil if none passed.
func (p *passers) list() *answer.LetPast {
	if len(p.by) == 0 {
		return nil
	}
	out := &answer.LetPast{From: p.from, Until: p.until, Priority: p.priority}
	all := p.sorted()
	rest := passers{asks: p.asks, others: p.others, otherPods: p.otherPods, othersTook: slices.Clone(p.othersTook)}
	for i, by := range all {
		if i < maxPassers {
			out.By = append(out.By, *by)
		} else {
			rest.fold(by)
		}
	}
	out.Others, out.OtherPods = rest.others, rest.otherPods
	if rest.others > 0 {
		out.OthersTook = rest.othersTook
	}
	out.Pods, out.Took = rest.otherPods, slices.Clone(rest.othersTook)
	for _, by := range out.By {
		out.Pods += by.Pods
		for i := range by.Took {
			out.Took[i].Amount += by.Took[i].Amount
		}
	}
	return out
}
