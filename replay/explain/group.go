package explain

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Group explains the state of the gang at a point of the log, and how it came about. The error is a *NotFoundError if
// the log has neither its PodGroup nor a member. It says so if the name belongs to a CompositePodGroup. Other errors
// are about reading the log.
func Group(ctx context.Context, log *history.Log, namespace, name string, opts Options) (*answer.Group, error) {
	return ask(ctx, log, &opts, func(r *reading) (*answer.Group, error) {
		scan := newGroupScan(namespace, name)
		if err := scan.read(r); err != nil {
			return nil, err
		}
		return explainGroup(r, scan)
	})
}

// read makes the first reading.
func (s *groupScan) read(r *reading) error {
	if err := r.start(s); err != nil {
		return err
	}
	// any order: fills a set
	for uid := range s.members {
		r.names.Add(index.UID(uid))
	}
	err := r.selectFor(func(e eventlog.Entry, names *history.Names) error {
		if inComposite(e, s.name) {
			return history.ErrTooNarrow
		}
		learn(e, names, isMemberOf(s.name))
		return nil
	})
	if err != nil {
		return err
	}
	if !r.Whole() && (s.composite || len(s.below) > 0 || len(s.levels) > 1) {
		return history.ErrTooNarrow
	}
	return r.scan(s)
}

// explainGroup makes the second reading, behind the first one.
func explainGroup(r *reading, scan *groupScan) (*answer.Group, error) {
	rerun := newRerun(r)
	rerun.explain(scan.stop)
	rerun.startBefore(scan.first.Seq)
	if err := rerun.begin(); err != nil {
		return nil, err
	}
	gang := &gangHistory{group: scan.name, first: scan.first}
	rerun.alsoWanted = func(e eventlog.Entry) bool {
		return gang.stopped(rerun.machine, e, func(name types.NamespacedName) uint64 { return scan.stops[name] })
	}
	gang.begun(rerun.machine)
	if err := rerun.run(gang); err != nil {
		return nil, err
	}
	x := groupExplanation(scan, rerun, gang)
	if x.Undecided = rerun.undecided(); x.Undecided != "" {
		x.Queue = nil
	}
	return x, rerun.failed
}

// groupExplanation puts together what both readings of the log have brought.
func groupExplanation(s *groupScan, r *rerun, h *gangHistory) *answer.Group {
	m := r.machine
	x := &answer.Group{
		Group: s.name.String(), At: r.at, KnownFrom: r.knownFrom(), Stage: "Gone", Members: []answer.GroupMember{},
		Counts:      answer.GroupCounts{Gone: s.gone()},
		Ends:        s.ends(),
		History:     h.told(m),
		LastFailure: r.explained(s.stop),
	}
	if x.Evicted = h.evicted; !h.was.declared {
		x.LastMin = h.lastMin
	}
	g := m.Cluster().Gangs().Named(s.name.Namespace, s.name.Name)
	if g == nil {
		return x
	}
	x.Stage, x.Declared, x.Min = h.stage(g), g.Declared(), g.Min()
	x.Together = together(g)
	x.Counts.Ready, x.Counts.Waiting, x.Counts.Assigned = g.Ready(), g.Waiting(), g.Placed()
	_, ending, _ := m.Cluster().Gangs().KeptBack(g)
	x.Counts.Leaving, x.Counts.EndedWell = g.Leaving()+ending, g.Succeeded()
	if x.WhenBelow = "Keep"; g.Evicts() {
		x.WhenBelow = "Evict"
	}
	x.Refusal = g.Refusal()
	for _, p := range g.Members() {
		member := answer.GroupMember{Pod: p.Object.Namespace + "/" + p.Object.Name, UID: p.Object.UID,
			Stage: p.Stage.String(), Node: p.Node,
			Leaving: p.Leaving() || p.Stage == cluster.Pending && !p.MayBePlaced()}
		if p.Stage == cluster.Pending {
			member.Nominated = m.NominatedNode(p.Object.UID)
		}
		if m.Queue().Find(p.Object.UID) != nil {
			var gated bool
			if member.GatingPlugin, member.GatingMessage, gated = gateOf(m, p); gated {
				x.Counts.Gated++
			}
		}
		x.Members = append(x.Members, member)
	}
	e := m.GangEntity(s.name.Namespace, s.name.Name)
	if e != nil {
		place := h.place(m, e)
		x.Queue = &place
	}
	x.Reason = h.reason(r, x.Queue)
	switch {
	case e == nil:
	case x.Stage != "Pending":
	default:
		var refused refusal
		if t := r.trialOf(e); t != nil {
			refused = t.refused
		}
		x.Needs = gangNeeds(r.at, m, g, refused)
	}
	return x
}

// told returns the collected history.
func (h *gangHistory) told(m *scheduler.Machine) answer.GroupHistory {
	return answer.GroupHistory{
		FirstSeen: *h.first, Declared: h.declared, Complete: h.complete, Placed: h.placed,
		Milestones: h.list, OmittedMilestones: h.forgotten,
		NodeLosses: h.lostNodes.list, OmittedNodeLosses: h.lostNodes.omitted,
		LetPast: h.past.list(), Attempts: h.attempts, Omitted: h.omitted,
		PreemptedBy: h.preemptedBy.asOf(m, h.results), OmittedPreemptedBy: h.preemptedBy.omitted,
		Preempted: h.preempted.asOf(m, h.results), OmittedPreempted: h.preempted.omitted,
	}
}

func (h *gangHistory) stage(g *cluster.Group) string {
	switch {
	case !g.Declared():
		return "Undeclared"
	case g.Refusal() != "" && g.Placed() == 0:
		return "Refused"
	case g.Lacking(gang.Kept) <= 0:
		return "Placed"
	case h.now.code == "" && h.done && g.Placed() == 0:
		return "Done"
	case h.now.code == "" && h.evicted != nil, h.now.code == answer.BeingEvicted:
		return "Evicted"
	case h.now.code == "" && h.lostTo != nil && g.Placed() == 0:
		return "Preempted"
	case h.now.code == "":
		return "BelowMinimum"
	case g.Lacking(gang.Present) > 0:
		return "Incomplete"
	}
	return "Pending"
}

// place returns the gang's place in the queue, with its time, which the queue forgets when the gang is retryable.
func (h *gangHistory) place(m *scheduler.Machine, e *queue.Entity) answer.QueuePlace {
	s := queuePlace(m, e)
	if s.Retryable && s.Since == 0 {
		s.Since = h.rest.Time
	}
	return s
}

// maxTogether is the number of gangs that are listed of the ones that are admitted together.
const maxTogether = 50

// together says what g is admitted together with and how far that is, nil for nothing.
func together(g *cluster.Group) *answer.Together {
	c := g.Composite()
	if c == nil {
		return nil
	}
	t := &answer.Together{Declared: c.Declared(), Refusal: c.Refusal()}
	if t.Declared {
		t.Min = c.Min()
	}
	if c.Namespace != "" {
		t.Composite = c.String()
	}
	names := c.Named()
	for i, name := range names {
		if i == maxTogether {
			t.Others = len(names) - i
			break
		}
		t.Gangs = append(t.Gangs, progressOf(c, name))
	}
	return t
}

// progressOf returns the progress of the gang of that name.
func progressOf(c *cluster.Composite, name types.NamespacedName) answer.GangProgress {
	progress := answer.GangProgress{Group: name.String()}
	if g := c.Gang(name); g != nil {
		progress.Declared, progress.Min, progress.Refusal = g.Declared(), g.Min(), g.Refusal()
		progress.Present, progress.Held, progress.Placed = g.Ready()+g.Waiting()+g.Placed(), g.Waiting(), g.Placed()
	}
	return progress
}

// gangNumbersOf returns the progress of g in numbers, nil for no gang.
func gangNumbersOf(g *cluster.Group) *answer.GangNumbers {
	if g == nil {
		return nil
	}
	return &answer.GangNumbers{Declared: g.Declared(), Min: g.Min(), Ready: g.Ready(), Waiting: g.Waiting(),
		Assigned: g.Assigned()}
}
