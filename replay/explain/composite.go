package explain

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Composite explains the state of the CompositePodGroup at a point of the log, and how it came about. The error is a
// *NotFoundError if the log has neither it nor a PodGroup that names it. Other errors are about reading the log.
func Composite(ctx context.Context, log *history.Log, namespace, name string, opts Options) (*answer.Composite, error) {
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	r := &reading{ctx: ctx, log: log, opts: &opts, base: base, whole: true}
	scan := newCompositeScan(namespace, name)
	if err := r.start(scan); err != nil {
		return nil, err
	}
	if err := r.selectFor(nil); err != nil {
		return nil, err
	}
	if err := r.scan(scan); err != nil {
		return nil, err
	}
	rerun := newRerun(r)
	rerun.startBefore(scan.seen.Seq)
	w := &compositeWatch{scan: scan, history: compositeHistory{first: *scan.seen}}
	for _, gang := range slices.SortedFunc(maps.Keys(scan.below), compareNames) {
		if len(w.gangs) == maxTogether {
			break
		}
		first := scan.firsts[gang]
		rerun.startBefore(first.Seq)
		w.gangs = append(w.gangs, &gangHistory{group: gang, first: &first})
	}
	if err := rerun.begin(); err != nil {
		return nil, err
	}
	rerun.alsoWanted = func(e eventlog.Entry) bool {
		return slices.ContainsFunc(w.gangs, func(h *gangHistory) bool {
			return h.stopped(rerun.machine, e, func(name types.NamespacedName) uint64 { return scan.stops[name] })
		})
	}
	w.begun(rerun.machine)
	if err := rerun.run(w); err != nil {
		return nil, err
	}
	return w.explanation(rerun), rerun.failed
}

// compositeWatch makes the second reading one for the composite and each of its gangs.
type compositeWatch struct {
	scan    *compositeScan
	history compositeHistory
	gangs   []*gangHistory
	touched bool // the entry at hand concerns one of the gangs
}

// compositeHistory collects what happened to the composite itself.
type compositeHistory struct {
	first                      answer.Point
	declared, complete, placed *answer.Point
	was                        condition
	milestones
}

func (w *compositeWatch) composite(m *scheduler.Machine) *cluster.Composite {
	return m.Cluster().Gangs().CompositePodGroup(w.scan.name.Namespace, w.scan.name.Name)
}

func (w *compositeWatch) begun(m *scheduler.Machine) {
	for _, h := range w.gangs {
		h.begun(m)
	}
	if m.Seq() > 0 {
		w.reached(m, answer.Point{})
	}
}

func (w *compositeWatch) before(m *scheduler.Machine, e eventlog.Entry) {
	for _, h := range w.gangs {
		h.before(m, e)
	}
	w.touched = w.concerns(m, e)
}

// concerns says whether the entry, which is to be applied next, may change how far the composite is.
func (w *compositeWatch) concerns(m *scheduler.Machine, e eventlog.Entry) bool {
	member := func(uid types.UID) bool {
		p := m.Cluster().Pods().Get(uid)
		return p != nil && p.Group != nil && w.scan.below[p.Group.Key()]
	}
	switch p := e.Payload.(type) {
	case *eventlog.Tick:
		return false
	case *eventlog.Decision:
		return member(p.UID) || slices.ContainsFunc(p.Allowed, member) || slices.ContainsFunc(p.Rejected, member) ||
			slices.ContainsFunc(p.Victims, member)
	case *eventlog.BindResult:
		return member(p.UID)
	case *eventlog.Deleted:
		return p.Resource != eventlog.Pods || member(p.UID)
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			gang, ok := m.Cluster().Gangs().NameOf(pod)
			return ok && w.scan.below[gang]
		}
	}
	return true
}

func (w *compositeWatch) after(m *scheduler.Machine, e eventlog.Entry) {
	for _, h := range w.gangs {
		h.after(m, e)
	}
	if w.touched {
		w.reached(m, pointOf(e))
	}
}

// kept returns how many members of a gang are bound, are being bound, or have ended well: its minimum if it is done.
func (w *compositeWatch) kept(g *cluster.Group) int {
	i := slices.IndexFunc(w.gangs, func(h *gangHistory) bool { return h.group == g.Key() })
	if i >= 0 && w.gangs[i].done && g.Placed() == 0 {
		return g.Min()
	}
	return g.Count(gang.Kept)
}

// has reports whether a gang has its minimum of the members that it kept.
func (w *compositeWatch) has(g *cluster.Group) bool {
	known := g.Gang()
	return known.Enough(w.kept(g))
}

// reached notes what the composite has come to, or has lost.
func (w *compositeWatch) reached(m *scheduler.Machine, at answer.Point) {
	h, c := &w.history, w.composite(m)
	var is condition
	refusal, why := "", ""
	if c != nil {
		refusal = c.Refusal()
		is = condition{declared: c.Declared(), refused: refusal != "", min: c.Min()}
	}
	if is.declared && !is.refused && c.Unit() != nil {
		there := c.Lacking(func(g *cluster.Group) bool { return g.HasMinimum(gang.Present) || w.has(g) })
		missing := c.Lacking(w.has)
		first, _ := c.FirstWithout(w.has)
		is.complete, is.placed = there == 0, missing == 0
		if missing > 0 {
			why = first.String() + " has not its minimum on nodes"
		}
	}
	if is == h.was {
		return
	}
	was := h.was
	h.was = is
	if was.declared != is.declared {
		h.mark(at, "Declared", "Undeclared", is.declared, &h.declared, "")
	}
	if was.refused != is.refused {
		h.mark(at, "Refused", "Accepted", is.refused, nil, refusal)
	}
	if was.placed != is.placed {
		h.mark(at, "Placed", "BelowMinimum", is.placed, &h.placed, why)
	}
	if was.complete != is.complete && (is.complete || !was.placed) {
		h.mark(at, "Complete", "Incomplete", is.complete, &h.complete, "")
	}
}

// explanation puts together what both readings of the log have brought.
func (w *compositeWatch) explanation(r *rerun) *answer.Composite {
	m, h := r.machine, &w.history
	x := &answer.Composite{
		Composite: w.scan.name.String(), At: r.at, KnownFrom: r.knownFrom(), Stage: "Gone",
		Gangs: []answer.CompositeGang{},
		History: answer.GroupHistory{FirstSeen: h.first, Declared: h.declared, Complete: h.complete, Placed: h.placed,
			Milestones: h.list, OmittedMilestones: h.forgotten},
	}
	x.History.Attempts, x.History.Omitted = w.attempts()
	w.addPreemptions(&x.History, m)
	w.addNodeLosses(&x.History)
	c := w.composite(m)
	if c == nil {
		return x
	}
	x.Declared, x.Refusal = c.Declared(), c.Refusal()
	if x.Declared {
		x.Min = c.Min()
	}
	w.levels(x, m, c)
	for i, g := range c.Gangs() {
		if i < maxTogether {
			x.Gangs = append(x.Gangs, w.gang(x, r, c, g))
		}
	}
	x.Others = len(c.Gangs()) - len(x.Gangs)
	x.Stage = w.stage(c, x.Reason != nil)
	return x
}

// levels describes the composites above and below, and the place in the queue of the unit that the composite belongs
// to.
func (w *compositeWatch) levels(x *answer.Composite, m *scheduler.Machine, c *cluster.Composite) {
	if above := c.Above(); above != nil {
		x.Parent = above.String()
	}
	if unit := m.Cluster().Gangs().UnitOf(c.Namespace, c.Name); unit != nil {
		if unit != c {
			x.Together = unit.String()
		}
		if e := m.Queue().Get(fwk.CompositePodGroupKey(unit.Namespace, unit.Name)); e != nil && len(w.gangs) > 0 {
			place := w.gangs[0].place(m, e)
			x.Queue = &place
		}
	}
	has := func(g *cluster.Group) bool { return g.Declared() && w.kept(g) >= g.Min() }
	x.WithMinimum = c.Having(has)
	for _, below := range c.Below() {
		if len(x.Composites) == maxTogether {
			break
		}
		gangs, composites := below.Directly()
		x.Composites = append(x.Composites, answer.CompositeBelow{
			Composite: below.String(), Parent: below.Above().String(), Min: below.Min(),
			Groups: len(gangs) + len(composites), WithMinimum: below.Having(has),
		})
	}
}

// gang describes the progress of one of the gangs. If the others wait for the gang, its reason becomes the reason of x.
func (w *compositeWatch) gang(x *answer.Composite, r *rerun, c *cluster.Composite,
	g *cluster.Group) answer.CompositeGang {
	out := answer.CompositeGang{GangProgress: progressOf(c, g.Key()), EndedWell: g.Succeeded(),
		Missing: max(0, g.Min()-w.kept(g))}
	if g.Parent() != c {
		out.Parent = g.Parent().String()
	}
	i := slices.IndexFunc(w.gangs, func(h *gangHistory) bool { return h.group == g.Key() })
	if i < 0 {
		return out // one of too many
	}
	h := w.gangs[i]
	out.Stage = h.stage(g)
	reason := h.reason(r, x.Queue)
	if reason == nil {
		return out
	}
	out.Code, out.Message, out.Predicate = reason.Code, reason.Message, reason.Predicate
	waits := func(x *answer.Reason) bool { return x.Code == answer.WaitsForOthers || x.BeyondMinimum > 0 }
	if x.Reason == nil || waits(x.Reason) && !waits(reason) {
		x.Reason = reason
	}
	return out
}

func (w *compositeWatch) stage(c *cluster.Composite, pending bool) string {
	switch h := &w.history; {
	case !c.Declared():
		return "Undeclared"
	case c.Refusal() != "":
		return "Refused"
	case c.Unit() == nil:
		return "Independent"
	case h.was.placed:
		return "Placed"
	case h.placed != nil && !pending:
		return "BelowMinimum"
	case !h.was.complete:
		return "Incomplete"
	}
	return "Pending"
}

// attempts adds up the attempts of the gangs, which are attempts of all of them.
func (w *compositeWatch) attempts() (all []answer.GroupAttempt, omitted int) {
	for _, h := range w.gangs {
		omitted = max(omitted, h.omitted)
		for _, a := range h.attempts {
			i, known := slices.BinarySearchFunc(all, a, func(a,
				b answer.GroupAttempt) int {
				return int(a.FirstCycle) - int(b.FirstCycle)
			})
			if !known {
				all = slices.Insert(all, i, a)
				continue
			}
			sum := &all[i]
			if a.LastCycle > sum.LastCycle {
				sum.Last, sum.LastCycle = a.Last, a.LastCycle
			}
			sum.Placed, sum.NoNode = sum.Placed+a.Placed, sum.NoNode+a.NoNode
			sum.Allowed, sum.Released = sum.Allowed+a.Allowed, sum.Released+a.Released
			if a.Outcome == "Placed" {
				sum.Outcome = "Placed"
			}
		}
	}
	if more := len(all) - maxAttempts; more > 0 {
		all, omitted = all[more:], omitted+more
	}
	return all, omitted
}

// addPreemptions merges the preemptions of the gangs: a decision that several of them have is one.
func (w *compositeWatch) addPreemptions(x *answer.GroupHistory, m *scheduler.Machine) {
	var by, preempted preemptions
	var results []*answer.EvictResult
	for _, h := range w.gangs {
		for _, r := range h.results {
			results = noteResult(results, r)
		}
		by.merge(&h.preemptedBy)
		preempted.merge(&h.preempted)
	}
	x.PreemptedBy, x.OmittedPreemptedBy = by.asOf(m, results), by.omitted
	x.Preempted, x.OmittedPreempted = preempted.asOf(m, results), preempted.omitted
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// needs keeps every entry: of a CompositePodGroup all are read.
func (w *compositeWatch) needs(*scheduler.Machine, []uint64, *history.Names) history.Need {
	return history.EveryEntry
}
