package explain

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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

	all, ahead, behind passed
	begun              map[queue.Key]turn // of attempts under way that began since: where each began
	turns              map[types.UID]turn // of the pods that the decision at hand places
}

// passed are entities that passed.
type passed struct {
	by         map[holderKey]*passer
	others     int
	otherPods  int
	othersTook []answer.Amount
}

// passer is one of them.
type passer struct {
	answer.Passer
	lacked v1.ResourceName // what the gang lacked at First, "" if not that it lacked anything is certain
}

// observe is called when the gang's condition changes.
func (p *passers) observe(c *cluster.State, g *cluster.Group, at answer.Point, complete, placed bool) {
	switch {
	case p.open && placed:
		p.open, p.until, p.begun, p.turns = false, &at, nil, nil
	case !p.open && complete && !placed:
		*p = passers{open: true, from: at, begun: map[queue.Key]turn{}, turns: map[types.UID]turn{}}
		p.measure(c, g)
		for _, member := range g.Members()[:min(1, len(g.Members()))] {
			p.priority = c.Gangs().PriorityOf(member.Object)
		}
		for _, list := range []*passed{&p.all, &p.ahead, &p.behind} {
			list.by, list.othersTook = map[holderKey]*passer{}, p.nothing()
		}
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
	t := p.turns[pod.Object.UID]
	p.add(&p.all, m, pod, at, state, t)
	if t.ahead {
		p.add(&p.ahead, m, pod, at, state, t)
	} else {
		p.add(&p.behind, m, pod, at, state, t)
	}
}

func (p *passers) add(list *passed, m *scheduler.Machine, pod *cluster.Pod, at answer.Point, state queue.State,
	t turn) {
	key := holderOf(pod)
	by := list.by[key]
	if by == nil {
		if len(list.by) == mostPassers {
			p.shrink(list)
		}
		by = &passer{lacked: t.lacked, Passer: answer.Passer{Kind: key.kind, Name: key.name, First: at,
			Meanwhile: state.String(), Took: p.nothing(), Priority: m.Cluster().Gangs().PriorityOf(pod.Object),
			Overtook: t.rule, Why: t.why}}
		list.by[key] = by
	}
	by.Pods++
	by.Last = at
	requests := pod.Requests()
	for i, name := range p.asks {
		by.Took[i].Amount += cluster.AmountOf(requests, name)
	}
}

// sorted returns the entities that passed, largest first.
func (p *passers) sorted(list *passed) []*passer {
	all := make([]*passer, 0, len(list.by))
	// any order: sorted right below
	for _, by := range list.by {
		all = append(all, by)
	}
	slices.SortFunc(all, func(a, b *passer) int {
		var more int
		if len(p.asks) > 0 {
			more = cmp.Compare(b.Took[p.scarce].Amount, a.Took[p.scarce].Amount)
		}
		return cmp.Or(more, cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// shrink keeps the largest and adds up the rest.
func (p *passers) shrink(list *passed) {
	for _, by := range p.sorted(list)[keptPassers:] {
		list.fold(by)
		delete(list.by, holderKey{by.Kind, by.Name})
	}
}

func (l *passed) fold(by *passer) {
	l.others++
	l.otherPods += by.Pods
	for i := range by.Took {
		l.othersTook[i].Amount += by.Took[i].Amount
	}
}

// list returns the collected entities; nil if none passed.
func (p *passers) list() *answer.LetPast {
	all := p.part(&p.all)
	if all == nil {
		return nil
	}
	return &answer.LetPast{From: p.from, Until: p.until, Priority: p.priority, Pods: all.Pods, Took: all.Took,
		By: all.By, Others: all.Others, OtherPods: all.OtherPods, OthersTook: all.OthersTook,
		Ahead: p.part(&p.ahead), Overtook: p.part(&p.behind)}
}

// part returns the entities of a list, nil for none.
func (p *passers) part(list *passed) *answer.PastPart {
	if len(list.by) == 0 {
		return nil
	}
	out := &answer.PastPart{Entities: list.others + len(list.by)}
	rest := passed{others: list.others, otherPods: list.otherPods, othersTook: slices.Clone(list.othersTook)}
	for i, by := range p.sorted(list) {
		if i < maxPassers {
			out.By = append(out.By, p.told(by))
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

// told returns an entity that passed, with the rule that allowed it: the amounts that it took are known by now.
func (p *passers) told(by *passer) answer.Passer {
	out := by.Passer
	i := slices.Index(p.asks, by.lacked)
	if by.lacked == "" || out.Overtook == "" || i >= 0 && out.Took[i].Amount > 0 {
		return out
	}
	switch out.Overtook {
	case answer.BestEffort, answer.Backfill, answer.OtherPolicy:
		out.Why = fmt.Sprintf("it took no %s, of which the gang had too little; %s", by.lacked, out.Why)
		out.Overtook = answer.OtherResources
	}
	return out
}
