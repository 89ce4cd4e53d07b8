package ledger

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// Ledger is the book of a range of a log.
type Ledger struct {
	// After and Last are the entries behind which the range begins and ends, Start and End the times.
	After, Last uint64
	Start, End  eventlog.Time
	// Moment says that the sums are amounts at Start.
	Moment bool
	By     By
	// Resources are the resources that nodes offer or pods request: cpu, the extended ones by name, memory, ephemeral
	// storage.
	Resources []v1.ResourceName
	// Groups are the groups by name. Total is all of them, with the time that no pod held.
	Groups []*Group
	Total  *Group
	// First is, at a moment, the entity for which room is idle, by resource.
	First map[v1.ResourceName]string
	// Parts is the number of parts that were booked separately.
	Parts int
}

// Group has the booked times of a group.
type Group struct {
	Name  string
	cells map[v1.ResourceName]*[columns]Sum
	// Caused and Suffered are the pods that decisions evicted for pods of the group, and the ones of the group that
	// they evicted for others.
	Caused, Suffered int
	// Gangs are the waits of gangs, Pods the ones of pods without a gang. With groups of nodes only the total has any.
	Gangs, Pods Waits

	buckets map[int]*Group
	waited  [2]Sum // by kind: gangs, pods
}

// Waits are the waits of gangs or pods. A gang waits from the instant at which enough members are there until its
// minimum has nodes, a pod until it has one. A wait counts in the range in which it ends, with its whole length.
type Waits struct {
	// Placed is the number of waits that ended with nodes, Pending of the ones that last at the end of the range.
	Placed, Pending int
	// P50, P90, P99 and Max are of the placed ones, by nearest rank.
	P50, P90, P99, Max time.Duration
	// Longest is the longest wait, also of the pending ones; nil if there is none.
	Longest *Longest

	all []time.Duration
}

// Longest is the longest wait.
type Longest struct {
	Name    string
	Wait    time.Duration
	Pending bool
}

// In returns the sums of the group in a bucket: behind so many of Options.Edges. It has no evictions and no Waits.
func (g *Group) In(bucket int) *Group {
	if in := g.buckets[bucket]; in != nil {
		return in
	}
	return &Group{Name: g.Name}
}

// bucket is In for booking.
func (g *Group) bucket(bucket int) *Group {
	if g.buckets == nil {
		g.buckets = map[int]*Group{}
	}
	in := g.buckets[bucket]
	if in == nil {
		in = &Group{Name: g.Name}
		g.buckets[bucket] = in
	}
	return in
}

// Waited returns the time that gangs waited, and pods without a gang: numbers of them times nanoseconds. Waits that
// ended without nodes count, and of each wait the part that is in the range.
func (g *Group) Waited() (gangs, pods Sum) { return g.waited[0], g.waited[1] }

// Sum returns the sum of a column.
func (g *Group) Sum(name v1.ResourceName, c Column) Sum {
	if cells := g.cells[name]; cells != nil {
		return cells[c]
	}
	return Sum{}
}

// SumOf adds up columns.
func (g *Group) SumOf(name v1.ResourceName, of ...Column) (sum Sum) {
	for _, c := range of {
		sum.plus(g.Sum(name, c))
	}
	return sum
}

// Balance returns the capacity, and what the other columns say that it was. They are equal for the total, and for a
// group of nodes.
func (g *Group) Balance(name v1.ResourceName) (capacity, booked *big.Int) {
	all := g.SumOf(name, append(append(Held(), Idle()...), Unavailable)...).Big()
	return g.Sum(name, Capacity).Big(), all.Sub(all, g.Sum(name, Overcommitted).Big())
}

func (g *Group) add(name v1.ResourceName, cells *[columns]Sum) {
	if *cells == ([columns]Sum{}) {
		return
	}
	if g.cells == nil {
		g.cells = map[v1.ResourceName]*[columns]Sum{}
	}
	to := g.cells[name]
	if to == nil {
		to = &[columns]Sum{}
		g.cells[name] = to
	}
	for c := range cells {
		to[c].plus(cells[c])
	}
}

// newLedger adds up the parts.
func newLedger(o Options, all []closed) *Ledger {
	l := &Ledger{After: o.After, Last: o.Last, Start: o.Start, End: o.End, Moment: o.Moment, By: o.By,
		Total: &Group{}, First: map[v1.ResourceName]string{}}
	groups := map[string]*Group{}
	of := func(name string) *Group {
		g := groups[name]
		if g == nil {
			g = &Group{Name: name}
			groups[name] = g
			l.Groups = append(l.Groups, g)
		}
		return g
	}
	for i := range all {
		x := &all[i]
		for _, name := range x.resources {
			if !slices.Contains(l.Resources, name) {
				l.Resources = append(l.Resources, name)
			}
		}
		x.addTo(l.Total, x.common)
		// any order: sums
		for name, r := range x.rows {
			x.addTo(of(name), r)
			x.addTo(l.Total, r)
		}
		l.addWaits(x.waits, i == len(all)-1, of, o.Edges)
		if o.Moment {
			l.First = x.first
		}
	}
	slices.SortFunc(l.Resources, compareResources)
	slices.SortFunc(l.Groups, func(a, b *Group) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range append(l.Groups, l.Total) {
		g.Gangs.finish()
		g.Pods.finish()
	}
	return l
}

func (x *closed) addTo(g *Group, r *row) {
	// any order: sums
	for bucket, cells := range r.cells {
		in := g.bucket(bucket)
		for res := range *cells {
			g.add(x.resources[res], &(*cells)[res])
			in.add(x.resources[res], &(*cells)[res])
		}
	}
	g.Caused += r.caused
	g.Suffered += r.suffered
}

// addWaits counts the waits that ended in a part, and if it is the last one, the ones that last.
func (l *Ledger) addWaits(waits []wait, last bool, of func(string) *Group, at edges) {
	for i := range waits {
		w := &waits[i]
		pending := w.end == 0
		if pending && !last {
			continue
		}
		l.addWaited(w, of, at)
		if !pending && !w.placed {
			continue
		}
		length := w.end.Sub(w.begin)
		if pending {
			length = max(0, l.End.Sub(w.begin))
		}
		to := []*Group{l.Total}
		if l.By.kind != byNode {
			to = append(to, of(w.group))
		}
		for _, g := range to {
			kind := &g.Gangs
			if w.key.Type == fwk.PodKeyType {
				kind = &g.Pods
			}
			kind.add(w.key, length, pending)
		}
	}
}

// addWaited books the time of a wait.
func (l *Ledger) addWaited(w *wait, of func(string) *Group, at edges) {
	until := w.end
	if until == 0 {
		until = l.End
	}
	kind := 0
	if w.key.Type == fwk.PodKeyType {
		kind = 1
	}
	to := []*Group{l.Total}
	if l.By.kind != byNode {
		to = append(to, of(w.group))
	}
	for bucket, d := range at.divide(max(w.begin, l.Start), until) {
		for _, g := range to {
			g.waited[kind].add(1, d)
			g.bucket(bucket).waited[kind].add(1, d)
		}
	}
}

func (w *Waits) add(key queue.Key, length time.Duration, pending bool) {
	name := key.Namespace + "/" + key.Name
	if l := w.Longest; l == nil || length > l.Wait || length == l.Wait && name < l.Name {
		w.Longest = &Longest{name, length, pending}
	}
	if pending {
		w.Pending++
		return
	}
	w.Placed++
	w.all = append(w.all, length)
}

func (w *Waits) finish() {
	slices.Sort(w.all)
	rank := func(percent int) time.Duration {
		if len(w.all) == 0 {
			return 0
		}
		return w.all[max(1, (len(w.all)*percent+99)/100)-1]
	}
	w.P50, w.P90, w.P99, w.Max = rank(50), rank(90), rank(99), rank(100)
	w.all = nil
}

// compareResources orders cpu before extended resources, and memory and storage behind them.
func compareResources(a, b v1.ResourceName) int {
	return cmp.Or(cmp.Compare(classOf(a), classOf(b)), strings.Compare(string(a), string(b)))
}

func classOf(name v1.ResourceName) int {
	switch {
	case name == v1.ResourceCPU:
		return 0
	case strings.Contains(string(name), "/"):
		return 1
	}
	return 2
}

// Gini returns the Gini coefficient of the held time of a resource over the groups, as a ratio: 0 if all groups held
// the same, near 1 if one group held all. ok is false if none held any.
func (l *Ledger) Gini(name v1.ResourceName) (gini *big.Rat, ok bool) {
	held := make([]*big.Int, 0, len(l.Groups))
	for _, g := range l.Groups {
		held = append(held, g.SumOf(name, Held()...).Big())
	}
	slices.SortFunc(held, (*big.Int).Cmp)
	n := int64(len(held))
	sum, weighted := new(big.Int), new(big.Int)
	for i, x := range held {
		sum.Add(sum, x)
		weighted.Add(weighted, new(big.Int).Mul(big.NewInt(2*int64(i)+1-n), x))
	}
	if sum.Sign() == 0 {
		return nil, false
	}
	return new(big.Rat).SetFrac(weighted, sum.Mul(sum, big.NewInt(n))), true
}

// Group returns the group of a name, nil for none.
func (l *Ledger) Group(name string) *Group {
	for _, g := range l.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// CheckResource returns an error for a resource that the ledger does not have. It names the ones that it has.
func (l *Ledger) CheckResource(name v1.ResourceName) error {
	if slices.Contains(l.Resources, name) {
		return nil
	}
	var all []string
	advice := ""
	for _, other := range l.Resources {
		all = append(all, string(other))
		if advice == "" && strings.HasSuffix(string(other), "/"+string(name)) {
			advice = fmt.Sprintf("; did you mean %s?", other)
		}
	}
	return fmt.Errorf("the log has no resource %q: it has %s%s", name, strings.Join(all, ", "), advice)
}

// unit is the unit in which people count a resource.
type unit struct {
	name string // of one
	size int64  // units of a resource that are one
}

// UnitOf names one unit in which people count a resource: core, GiB, GPU or unit.
func UnitOf(name v1.ResourceName) string { return unitOf(name).name }

func unitOf(name v1.ResourceName) unit {
	switch name {
	case v1.ResourceCPU:
		return unit{"core", 1000}
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return unit{"GiB", 1 << 30}
	}
	if strings.HasSuffix(string(name), "/gpu") {
		return unit{"GPU", 1}
	}
	return unit{"unit", 1}
}

// Quantity returns a sum as people count it: in hours of a core, a GiB or a unit, or at a moment in these.
func (l *Ledger) Quantity(name v1.ResourceName, s Sum) *big.Rat {
	per := big.NewInt(unitOf(name).size)
	if !l.Moment {
		per.Mul(per, big.NewInt(int64(time.Hour)))
	}
	return new(big.Rat).SetFrac(s.Big(), per)
}
