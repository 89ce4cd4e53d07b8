package compare

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Outcome is the fate of a gang, or of a pod without a gang, in one log.
type Outcome struct {
	// Complete is the entry at which the gang's minimum of members existed, or the pod came. nil if it never did.
	Complete *answer.Point `json:"complete,omitempty"`
	// Placed is the first entry at which the minimum had nodes, or the pod had one. nil if it never had.
	Placed *answer.Point `json:"placed,omitempty"`
	// Node is the first node of a pod without a gang.
	Node string `json:"node,omitempty"`
	// Evicted counts the pods that Decisions evicted, Succeeded and Failed the ones that ended so.
	Evicted   int `json:"evicted"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`

	kind, name string
}

// wait returns how long the gang or the pod waited for its nodes. A wait without an end lasts until the log's last
// entry. ok is false if there was nothing to wait for.
func (o *Outcome) wait(end answer.Point) (wait time.Duration, ok bool) {
	if o == nil || o.Complete == nil {
		return 0, false
	}
	until := end
	if o.Placed != nil {
		until = *o.Placed
	}
	return eventlog.Time(until.Time).Sub(eventlog.Time(o.Complete.Time)), true
}

// outcomes are the outcomes of a log, by kind and name.
type outcomes struct{ byName map[string]*Outcome }

func (os *outcomes) of(kind, name string) *Outcome {
	o := os.byName[kind+" "+name]
	if o == nil {
		o = &Outcome{kind: kind, name: name}
		os.byName[kind+" "+name] = o
	}
	return o
}

// ofPod returns the outcome that a pod belongs to.
func (os *outcomes) ofPod(p *cluster.Pod) *Outcome {
	if p.Group != nil && p.Group.Declared() {
		return os.of("gang", p.Group.String())
	}
	return os.of("pod", nameOf(p.Object))
}

// came notes a pod that came or changed.
func (os *outcomes) came(m *scheduler.Machine, uid types.UID, at answer.Point) {
	p := m.Cluster().Pods().Get(uid)
	if p == nil {
		return
	}
	o := os.ofPod(p)
	os.check(o, p.Group, at)
	if o.kind == "pod" && o.Complete == nil {
		o.Complete = &at
	}
	if o.kind == "pod" && o.Placed == nil && p.Node != "" {
		o.Placed, o.Node = &at, p.Node
	}
}

// ends notes a pod that ends with an entry, before the entry is applied. A pod that has ended leaves the state.
func (os *outcomes) ends(m *scheduler.Machine, now *v1.Pod) {
	p := m.Cluster().Pods().Get(now.UID)
	if p == nil {
		return
	}
	switch now.Status.Phase {
	case v1.PodSucceeded:
		os.ofPod(p).Succeeded++
	case v1.PodFailed:
		os.ofPod(p).Failed++
	}
}

// reached notes a gang whose object came or changed.
func (os *outcomes) reached(m *scheduler.Machine, namespace, name string, at answer.Point) {
	if g := m.Cluster().Gangs().Named(namespace, name); g != nil && g.Declared() {
		os.check(os.of("gang", g.String()), g, at)
	}
}

// check notes whether a gang is complete and placed now.
func (os *outcomes) check(o *Outcome, g *cluster.Group, at answer.Point) {
	if o.kind != "gang" {
		return
	}
	if o.Complete == nil && g.Lacking(gang.Present) <= 0 {
		o.Complete = &at
	}
	if o.Placed == nil && g.Lacking(gang.Kept) <= 0 {
		o.Placed = &at
	}
}

// evicts notes the pods that a Decision evicts, before it is applied.
func (os *outcomes) evicts(m *scheduler.Machine, d *eventlog.Decision) {
	victims := d.Victims
	if d.Outcome == eventlog.Evicted && !slices.Contains(victims, d.UID) {
		victims = append(slices.Clone(victims), d.UID)
	}
	for _, uid := range victims {
		if p := m.Cluster().Pods().Get(uid); p != nil {
			os.ofPod(p).Evicted++
		}
	}
}

// decided notes what a Decision placed, after it is applied.
func (os *outcomes) decided(m *scheduler.Machine, d *eventlog.Decision, at answer.Point) {
	for _, uid := range append(slices.Clone(d.Allowed), d.UID) {
		p := m.Cluster().Pods().Get(uid)
		if p == nil || p.Node == "" {
			continue
		}
		o := os.ofPod(p)
		os.check(o, p.Group, at)
		if o.kind == "pod" && o.Placed == nil {
			o.Placed, o.Node = &at, p.Node
		}
	}
}

// totals counts the outcomes of one kind.
func (os *outcomes) totals(kind string) (t Totals) {
	sum := new(big.Int) // of nanoseconds
	// any order: sums and a maximum
	for _, o := range os.byName {
		if o.kind != kind {
			continue
		}
		t.All++
		t.Evicted += o.Evicted
		if wait, ok := o.wait(answer.Point{}); ok && o.Placed != nil {
			t.Placed++
			sum.Add(sum, big.NewInt(int64(wait)))
			t.LongestWait = max(t.LongestWait, Wait(wait))
		}
	}
	if t.Placed > 0 {
		t.MeanWait = Wait(sum.Div(sum, big.NewInt(int64(t.Placed))).Int64())
	}
	return t
}

// objects returns the objects that differ, by resource.
func (c *comparison) objects() []ObjectsDiffer {
	byResource := map[eventlog.Resource]*ObjectsDiffer{}
	of := func(o object) *ObjectsDiffer {
		d := byResource[o.resource]
		if d == nil {
			d = &ObjectsDiffer{Resource: string(o.resource)}
			byResource[o.resource] = d
		}
		return d
	}
	// any order: the names are sorted below
	for o, content := range c.a.seen {
		switch other, ok := c.b.seen[o]; {
		case !ok:
			of(o).OnlyA = append(of(o).OnlyA, o.fullName())
		case other != content:
			of(o).Other = append(of(o).Other, o.fullName())
		}
	}
	// any order: the names are sorted below
	for o := range c.b.seen {
		if _, ok := c.a.seen[o]; !ok {
			of(o).OnlyB = append(of(o).OnlyB, o.fullName())
		}
	}
	list := []ObjectsDiffer{}
	for _, r := range slices.Sorted(maps.Keys(byResource)) {
		d := *byResource[r]
		d.CountA, d.CountB, d.CountOf = len(d.OnlyA), len(d.OnlyB), len(d.Other)
		for _, names := range []*[]string{&d.OnlyA, &d.OnlyB, &d.Other} {
			slices.Sort(*names)
			*names = (*names)[:min(c.Show, len(*names))]
		}
		list = append(list, d)
	}
	return list
}

// changes returns the outcomes of one kind that differ, the largest change first, and their number.
func (c *comparison) changes(kind string) (list []Change, count int) {
	names := map[string]bool{}
	for _, s := range []*side{c.a, c.b} {
		// any order: a set
		for _, o := range s.outcomes.byName {
			if o.kind == kind {
				names[o.name] = true
			}
		}
	}
	// any order: sorted below
	for name := range names {
		x := Change{Name: name, A: c.a.outcomes.byName[kind+" "+name], B: c.b.outcomes.byName[kind+" "+name]}
		if c.fill(&x) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(x, y Change) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(abs(y.MoreWait), abs(x.MoreWait)),
			strings.Compare(x.Name, y.Name))
	})
	return list[:min(c.Show, len(list))], len(list)
}

// The weights of changes: first what only one log has, then what only one log placed, then the rest by its waits.
const (
	waited = iota
	placedInOne
	inOne
)

// fill compares both outcomes. It returns false if they are the same.
func (c *comparison) fill(x *Change) bool {
	if x.A == nil || x.B == nil {
		x.weight = inOne
		return true
	}
	a, okA := x.A.wait(c.a.last)
	b, okB := x.B.wait(c.b.last)
	if okA && okB {
		x.WaitA, x.WaitB, x.MoreWait = Wait(a), Wait(b), Wait(b-a)
	}
	if x.A.Placed == nil && x.B.Placed == nil {
		x.MoreWait = 0 // they wait at the end of both logs: the difference is the logs'
	}
	if (x.A.Placed == nil) != (x.B.Placed == nil) {
		x.weight = placedInOne
		return true
	}
	return x.MoreWait != 0 || x.A.Node != x.B.Node || x.A.Evicted != x.B.Evicted ||
		x.A.Succeeded != x.B.Succeeded || x.A.Failed != x.B.Failed
}

func abs(d Wait) Wait { return max(d, -d) }
