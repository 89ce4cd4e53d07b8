package replay

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// LetPast is who was given nodes by this scheduler while a gang was complete and waited for its own.
type LetPast struct {
	// From is where the gang was complete, and Until where it had its minimum on nodes; nil if it does not yet.
	From  Point  `json:"from"`
	Until *Point `json:"until,omitempty"`
	// Pods is how many pods were let past, and Took what they requested of the resources that the gang needs.
	Pods int      `json:"pods"`
	Took []Amount `json:"took,omitempty"`
	// By are the gangs and pods, those first that took the most of the resource that the gang lacked most, at most 20.
	// Of more than a few thousand the smallest may be left out, and one that comes again is counted anew.
	By []Passer `json:"by"`
	// Others is how many more they were, with OtherPods pods that took OthersTook.
	Others     int      `json:"others,omitempty"`
	OtherPods  int      `json:"otherPods,omitempty"`
	OthersTook []Amount `json:"othersTook,omitempty"`
}

// Passer is a gang, or a pod of no gang, that was let past.
type Passer struct {
	// Kind is group or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Pods is how many pods were given nodes, from First to Last.
	Pods  int   `json:"pods"`
	First Point `json:"first"`
	Last  Point `json:"last"`
	// Meanwhile is where the gang that waited stood in the queue at First: Active if the other had its turn first by the
	// order of the queue, another state if the gang could not be tried.
	Meanwhile string   `json:"meanwhile"`
	Took      []Amount `json:"took,omitempty"`
}

// Amount is an amount of a resource, in its base unit; cpu in thousandths of a core.
type Amount struct {
	Resource v1.ResourceName `json:"resource"`
	Amount   int64           `json:"amount"`
}

const (
	maxPassers  = 20   // are shown
	keptPassers = 1024 // are kept of twice as many or more
	mostPassers = 4096
)

// passers collects who is let past.
type passers struct {
	open   bool
	from   Point
	until  *Point
	asks   []v1.ResourceName // what the gang needs
	scarce int               // which of asks is the shortest

	by         map[holderKey]*Passer
	others     int
	otherPods  int
	othersTook []Amount
}

// observe is told when the gang's condition changes.
func (p *passers) observe(c *cluster.State, g *cluster.Group, at Point, complete, placed bool) {
	switch {
	case p.open && placed:
		p.open, p.until = false, &at
	case !p.open && complete && !placed:
		*p = passers{open: true, from: at, by: map[holderKey]*Passer{}}
		p.measure(c, g)
		p.othersTook = p.nothing()
	}
}

// measure finds out what the gang needs, and of which of that the smallest part is free.
func (p *passers) measure(c *cluster.State, g *cluster.Group) {
	_, needs := c.GangNeeds(g)
	nodes, _ := c.List()
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

// worseThan compares free/needed without rounding; none of the numbers is negative.
func worseThan(free, needed, otherFree, otherNeeded int64) bool {
	hi, lo := bits.Mul64(uint64(free), uint64(otherNeeded))
	thi, tlo := bits.Mul64(uint64(otherFree), uint64(needed))
	return hi < thi || hi == thi && lo < tlo
}

func (p *passers) nothing() []Amount {
	took := make([]Amount, len(p.asks))
	for i, name := range p.asks {
		took[i].Resource = name
	}
	return took
}

// decided takes in a decision on a pod that does not stand in the queue with the gang; state is where the gang stood
// there before it. Pods that are the gang's own are not counted.
func (p *passers) decided(m *scheduler.Machine, at Point, d *eventlog.Decision, state queue.State, own func(*cluster.Pod) bool) {
	if !p.open {
		return
	}
	if d.Outcome == eventlog.Scheduled {
		p.passed(m.Cluster().Pod(d.UID), at, state)
	}
	for _, uid := range d.Allowed {
		if pod := m.Cluster().Pod(uid); !own(pod) {
			p.passed(pod, at, state)
		}
	}
}

func (p *passers) passed(pod *cluster.Pod, at Point, state queue.State) {
	if pod == nil {
		return
	}
	key := holderOf(pod)
	by := p.by[key]
	if by == nil {
		if len(p.by) == mostPassers {
			p.shrink()
		}
		by = &Passer{Kind: key.kind, Name: key.name, First: at, Meanwhile: state.String(), Took: p.nothing()}
		p.by[key] = by
	}
	by.Pods++
	by.Last = at
	requests := pod.Requests()
	for i, name := range p.asks {
		by.Took[i].Amount += cluster.AmountOf(requests, name)
	}
}

// sorted returns who was let past, largest first.
func (p *passers) sorted() []*Passer {
	all := make([]*Passer, 0, len(p.by))
	// any order: sorted right below
	for _, by := range p.by {
		all = append(all, by)
	}
	slices.SortFunc(all, func(a, b *Passer) int {
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

func (p *passers) fold(by *Passer) {
	p.others++
	p.otherPods += by.Pods
	for i := range by.Took {
		p.othersTook[i].Amount += by.Took[i].Amount
	}
}

// list returns what was collected; nil if nobody was let past.
func (p *passers) list() *LetPast {
	if len(p.by) == 0 {
		return nil
	}
	out := &LetPast{From: p.from, Until: p.until}
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

// holderOf names the gang of a pod, or the pod if it has none.
func holderOf(p *cluster.Pod) holderKey {
	if p.Group != nil {
		return holderKey{"group", p.Group.String()}
	}
	return holderKey{"pod", nameOf(p.Object)}
}
