package replay

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// How long the lists of a history are at most.
const (
	maxAttempts   = 100
	maxMilestones = 50
)

const gangPlugin = coscheduling.Name

// groupHistory collects, in the second reading, what happened to a gang. Its before and after are called for each entry.
type groupHistory struct {
	group types.NamespacedName
	first *Point

	declared, complete, placed *Point // first times
	was                        condition
	milestones
	cause   string // of what the entry at hand takes from the gang, "" if it is plain
	ends    bool   // by the entry at hand the last member goes of those that were needed
	done    bool   // they all did
	evicted *Eviction
	held    bool // the entry at hand is a decision on a pod that is held on a node

	attempts []GroupAttempt
	omitted  int
	rows     refusedRows // of the last attempt

	entity *queue.Entity // of the last attempt, and which of the entity's it is
	number int
	state  queue.State
	blind  bool // there may have been attempts before the first entry that is taken

	fail, ownFail failure // of the last attempt: of the entity's, and of the gang's own members
	rest          Point   // where the last attempt failed
	now, settled  lasting // the code that holds, and the last one that is not InFlight

	past passers
}

// condition is what a milestone is the change of.
type condition struct {
	declared, refused, complete, placed bool
	min                                 int
}

// failure is why an attempt failed; the zero value is none.
type failure struct {
	recorded
	code Code
	// together says, of LacksRoom, that all gangs that are admitted together lack it; asked, that it is what the
	// PodGroup asks for.
	together bool
	gang     types.NamespacedName
	pod      string
	until    eventlog.Time     // of PermitTimedOut: the deadline
	short    cluster.Shortfall // of LacksRoom
	bind     *BindExplanation  // of BindFailed
}

func (f *failure) known() bool { return f.code != "" }

// lasting is a code and since when it holds.
type lasting struct {
	code  Code
	since Instant
}

func (h *groupHistory) gang(m *scheduler.Machine) *cluster.Group {
	return m.Cluster().Group(h.group.Namespace, h.group.Name)
}

func (h *groupHistory) entityIn(m *scheduler.Machine) *queue.Entity {
	return m.GangEntity(h.group.Namespace, h.group.Name)
}

// concerns says whether the pod stands in the queue with the gang, or is a member of it.
func (h *groupHistory) concerns(m *scheduler.Machine, p *cluster.Pod) bool {
	if p == nil || p.Group == nil {
		return false
	}
	if p.Group.Key() == h.group {
		return true
	}
	c := p.Group.Composite()
	return c != nil && c.Gang(h.group) != nil
}

// begun looks at the state before the first entry that is taken: what it shows already came about somewhere
// before, which is said as entry 0.
func (h *groupHistory) begun(m *scheduler.Machine) {
	if m.Seq() == 0 {
		return
	}
	h.blind = true
	h.reached(m, Point{})
	if h.entity = h.entityIn(m); h.entity != nil {
		h.number, h.omitted, h.state = h.entity.Attempts(), h.entity.Attempts(), h.entity.State()
		h.note(m, Instant(h.entity.Since()))
	}
}

// before looks at an entry that is to be applied next: at what the entry will have changed or taken away.
func (h *groupHistory) before(m *scheduler.Machine, e eventlog.Entry) {
	h.cause, h.held, h.ends = "", false, false
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		if pod := m.Cluster().Pod(p.UID); h.concerns(m, pod) {
			h.held = pod.Stage == cluster.Waiting
			h.beforeDecision(m, recorded{pointOf(e), p}, pod)
		} else if i := slices.IndexFunc(p.Rejected, func(uid types.UID) bool { return h.concerns(m, m.Cluster().Pod(uid)) }); i >= 0 {
			pod = m.Cluster().Pod(p.Rejected[i])
			h.failed(failure{recorded: recorded{pointOf(e), p}, code: BrokenOff, gang: pod.Group.Key(), pod: nameOf(pod.Object)})
		}
	case *eventlog.BindResult:
		pod := m.Cluster().Pod(p.UID)
		failed := p.Outcome == eventlog.BindConflict || p.Outcome == eventlog.BindFailed
		if failed && h.concerns(m, pod) && pod.Stage == cluster.Binding && pod.Node == p.Node {
			bind := bindOf(e, p)
			h.cause = fmt.Sprintf("binding %s to %s ended in %s", nameOf(pod.Object), p.Node, bind.said())
			h.failed(failure{recorded: recorded{at: pointOf(e)}, code: BindFailed, gang: pod.Group.Key(), pod: nameOf(pod.Object), bind: bind})
		}
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			h.beforePod(m, pod)
		}
	case *eventlog.Deleted:
		if p.Resource == eventlog.Nodes && slices.ContainsFunc(m.Cluster().GangsOn(p.Name), func(g *cluster.Group) bool { return g.Key() == h.group }) {
			h.cause = fmt.Sprintf("node %s is gone", p.Name)
		}
		if pod := m.Cluster().Pod(p.UID); p.Resource == eventlog.Pods && h.isMember(pod) {
			h.cause, h.ends = lost(m, pod, "was deleted"), isLast(pod, false)
		}
	}
}

func (h *groupHistory) isMember(p *cluster.Pod) bool {
	return p != nil && p.Group != nil && p.Group.Key() == h.group
}

func (h *groupHistory) beforePod(m *scheduler.Machine, obj *v1.Pod) {
	pod := m.Cluster().Pod(obj.UID)
	if !h.isMember(pod) {
		return
	}
	switch {
	case obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed:
		h.cause = lost(m, pod, fmt.Sprintf("has finished (%s)", obj.Status.Phase))
		h.ends = isLast(pod, obj.Status.Phase == v1.PodSucceeded)
	case obj.DeletionTimestamp != nil:
		h.cause = lost(m, pod, "is being deleted")
	}
}

// isLast says whether a member that goes is the last one of a gang of which, with it, as many as are needed have ended well.
func isLast(p *cluster.Pod, well bool) bool {
	succeeded := p.Group.Succeeded()
	if well && !p.Leaving() {
		succeeded++
	}
	return p.Group.Met() && succeeded >= p.Group.Min() && p.Group.Placed() == 1 && p.Stage >= cluster.Binding
}

// lost says what became of a member.
func lost(m *scheduler.Machine, p *cluster.Pod, how string) string {
	text := nameOf(p.Object) + " " + how
	if p.Node != "" && m.Cluster().Node(p.Node) == nil {
		text += fmt.Sprintf("; its node %s was gone", p.Node)
	}
	return text
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// beforeDecision judges, on the state that it was made on, a decision that placed nothing.
func (h *groupHistory) beforeDecision(m *scheduler.Machine, r recorded, p *cluster.Pod) {
	if r.failed() {
		f := failure{recorded: r, gang: p.Group.Key(), pod: nameOf(p.Object)}
		f.judge(m, p)
		// An attempt that begins forgets the last one's failures: see decided.
		if e := h.entityIn(m); e == nil || e.State() != queue.InFlight && p.Stage != cluster.Waiting {
			h.fail, h.ownFail = failure{}, failure{}
		}
		h.failed(f)
	}
}

func (h *groupHistory) failed(f failure) {
	h.fail = f
	if f.gang == h.group {
		h.ownFail = f
	}
}

// judge says in which way the attempt failed; p is the pod of the decision as it stood before it.
func (f *failure) judge(m *scheduler.Machine, p *cluster.Pod) {
	d := f.decision
	f.code = Unplaceable
	switch {
	case p.Stage == cluster.Waiting:
		f.code = BrokenOff
		if w, ok := m.WaitingPods().Get(d.UID); ok && w.Until <= m.Now() {
			f.code, f.until = PermitTimedOut, w.Until
		}
	case d.Outcome == eventlog.Error:
		f.code = PluginFailed
	case d.Evaluated == 0 && blames(d, gangPlugin):
		if short, lacks := m.Cluster().Lacks(p.Group); lacks {
			f.code, f.short = LacksRoom, short
		} else if c := p.Group.Composite(); c != nil {
			if short, lacks := m.Cluster().LacksTogether(c); lacks {
				f.code, f.short, f.together = LacksRoom, short, true
			}
		}
	}
}

// blames says whether the plugin refused the pod as a whole.
func blames(d *eventlog.Decision, plugin string) bool {
	return slices.ContainsFunc(d.Rejections, func(r eventlog.Rejection) bool { return r.Plugin == plugin && r.Nodes == 0 })
}

// after looks at what an entry, just applied, meant for the gang.
func (h *groupHistory) after(m *scheduler.Machine, e eventlog.Entry) {
	at := pointOf(e)
	touched := false
	switch p := e.Payload.(type) {
	case *eventlog.Tick:
	case *eventlog.Decision:
		pod := m.Cluster().Pod(p.UID)
		if touched = h.concerns(m, pod); touched {
			h.decided(m, at, p, pod)
		} else {
			touched = h.decidedElsewhere(m, at, p)
		}
	case *eventlog.BindResult:
		touched = h.cause != "" || h.concerns(m, m.Cluster().Pod(p.UID))
	case *eventlog.Upserted:
		pod, ok := p.Object.(*v1.Pod)
		touched = !ok || h.cause != "" || h.concerns(m, m.Cluster().Pod(pod.UID))
	case *eventlog.Deleted:
		touched = p.Resource != eventlog.Pods || h.cause != "" || h.sharesFate(m)
	default:
		touched = true
	}
	entity := h.entityIn(m)
	state := queue.State(0)
	if entity != nil {
		state = entity.State()
	}
	if !touched && entity == h.entity && state == h.state {
		return
	}
	h.state = state
	if n := len(h.attempts); n > 0 && state != queue.InFlight && h.attempts[n-1].Outcome == "Running" {
		h.attempts[n-1].Outcome = "Held"
	}
	h.reached(m, at)
	if state != queue.InFlight && h.fail.known() && h.fail.at == at {
		h.rest = at
	}
	h.note(m, at.Time)
}

// decidedElsewhere takes in a decision on a pod that has nothing to do with the gang, and says whether it let members of
// the gang go, or took them off their nodes.
func (h *groupHistory) decidedElsewhere(m *scheduler.Machine, at Point, d *eventlog.Decision) bool {
	h.past.decided(m, at, d, h.state, func(p *cluster.Pod) bool { return h.concerns(m, p) })
	allowed, released := h.members(m, d.Allowed), h.members(m, d.Rejected)
	if allowed+released == 0 {
		return false
	}
	if n := len(h.attempts); n > 0 {
		a := &h.attempts[n-1]
		a.Last, a.LastCycle = at, d.Cycle
		a.Allowed += allowed
		a.Released += released
		if a.Outcome = "Placed"; allowed == 0 {
			a.Outcome, a.FailedMember, a.Code, a.Why = "Failed", h.fail.pod, h.fail.code, h.fail.inShort()
		}
	}
	return true
}

// sharesFate says whether the gang is admitted with others.
func (h *groupHistory) sharesFate(m *scheduler.Machine) bool {
	g := h.gang(m)
	return g != nil && g.Composite() != nil
}

// note keeps since when the reason is what it is.
func (h *groupHistory) note(m *scheduler.Machine, at Instant) {
	code, _ := h.code(m)
	if code == h.now.code {
		return
	}
	switch {
	case code == InFlight:
		h.now = lasting{code, at}
	case code == h.settled.code:
		h.now = h.settled
	default:
		h.now = lasting{code, at}
		h.settled = h.now
	}
}

// decided takes in a decision on a pod that stands in the queue with the gang.
func (h *groupHistory) decided(m *scheduler.Machine, at Point, d *eventlog.Decision, pod *cluster.Pod) {
	own := h.isMember(pod)
	switch {
	case d.Outcome == eventlog.Reserved:
		return // it is no attempt; a reason tells of it as long as it stands
	case d.Outcome == eventlog.Evicted && own:
		h.evicted = &Eviction{Point: at, Members: len(d.Victims), Why: whyEvicted(d)}
		h.mark(at, "Evicted", "", true, nil, fmt.Sprintf("%s: %s", count(int64(len(d.Victims)), "member", "members"), h.evicted.Why))
		return
	case d.Outcome == eventlog.Evicted:
		return
	}
	entity := h.entityIn(m)
	if len(h.attempts) == 0 || entity != h.entity || entity != nil && entity.Attempts() != h.number {
		h.begin(at, d.Cycle, entity)
	}
	if h.entity = entity; entity != nil {
		h.number = entity.Attempts()
	}
	a := &h.attempts[len(h.attempts)-1]
	a.Last, a.LastCycle = at, d.Cycle
	a.Allowed += h.members(m, d.Allowed)
	a.Released += h.members(m, d.Rejected)
	switch d.Outcome {
	case eventlog.Waiting:
		if own {
			a.Placed++
		}
	case eventlog.Scheduled:
		if own && !h.held {
			a.Placed++ // one that was held has been counted when it was
		}
		if own {
			a.Outcome = "Placed"
		}
	default:
		h.refused(a, d, own)
	}
	if h.members(m, d.Allowed) > 0 {
		a.Outcome = "Placed"
	}
}

// refused notes a member that found no node, and what that means for the attempt.
func (h *groupHistory) refused(a *GroupAttempt, d *eventlog.Decision, own bool) {
	refusals := refusalsOf(d.Rejections)
	if own && (h.fail.code == Unplaceable || h.fail.code == PluginFailed) {
		h.rows.add(podOf(d), refusals)
		a.NoNode = h.rows.total()
	}
	if a.Outcome == "Placed" && !own {
		return
	}
	if a.Outcome != "Placed" {
		a.Outcome = "Failed"
	}
	a.FailedMember, a.Rejections, a.Code = podOf(d), refusals, h.fail.code
	a.Why = h.fail.inShort()
}

// members counts the gang's own among the pods.
func (h *groupHistory) members(m *scheduler.Machine, uids []types.UID) (n int) {
	for _, uid := range uids {
		if h.isMember(m.Cluster().Pod(uid)) {
			n++
		}
	}
	return n
}

func (h *groupHistory) begin(at Point, cycle uint64, entity *queue.Entity) {
	if len(h.attempts) == maxAttempts {
		h.attempts = append(h.attempts[:0], h.attempts[1:]...)
		h.omitted++
	}
	a := GroupAttempt{First: at, FirstCycle: cycle, Outcome: "Running"}
	if entity != nil {
		a.Number = entity.Attempts()
	}
	h.attempts, h.rows = append(h.attempts, a), refusedRows{}
	if h.fail.at != at {
		h.fail, h.ownFail = failure{}, failure{}
	}
}

// reached notes what the gang has come to, or has lost, as of at.
func (h *groupHistory) reached(m *scheduler.Machine, at Point) {
	g := h.gang(m)
	var is condition
	if g != nil {
		is = condition{declared: g.Declared(), refused: g.Refusal() != "", min: g.Min()}
		is.complete = is.declared && g.Ready()+g.Waiting()+g.Assigned() >= g.Min()
		is.placed = is.declared && (g.Assigned() >= g.Min() || g.Placed()+g.Succeeded() >= g.Min())
	}
	if is == h.was {
		return
	}
	if is.placed {
		h.done, h.evicted = false, nil
	}
	was := h.was
	h.was = is
	why := h.cause
	if why == "" && was.min != is.min && was.declared && is.declared {
		why = fmt.Sprintf("its minimum was %d and is %d now", was.min, is.min)
	}
	left := ""
	if g != nil {
		left = fmt.Sprintf("%d of %d members on nodes", g.Placed(), g.Min())
	}
	if was.declared != is.declared {
		h.mark(at, "Declared", "Undeclared", is.declared, &h.declared, "")
	}
	if was.refused != is.refused && g != nil {
		h.mark(at, "Refused", "Accepted", is.refused, nil, g.Refusal())
	}
	if was.placed && !is.placed && h.ends {
		h.done = true
		h.mark(at, "Done", "", true, nil, why)
		h.past.observe(m.Cluster(), g, at, is.complete && !is.refused, false)
		return
	}
	if was.placed != is.placed && g != nil {
		h.mark(at, "Placed", "BelowMinimum", is.placed, &h.placed, join(why, left))
	}
	if was.complete != is.complete && g != nil && g.Placed() == 0 {
		h.mark(at, "Complete", "Incomplete", is.complete, &h.complete, why)
	} else if is.complete && h.complete == nil {
		h.complete = &at
	}
	h.past.observe(m.Cluster(), g, at, is.complete && !is.refused, is.placed)
}

// whyEvicted is what a decision of outcome Evicted says.
func whyEvicted(d *eventlog.Decision) string {
	var said []string
	for _, r := range d.Rejections {
		said = append(said, r.Reason)
	}
	return strings.Join(said, "; ")
}

// join puts two remarks together.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// milestones are the last changes of what there is, in order.
type milestones struct {
	list      []Milestone
	forgotten int // how many came before them
}

// mark adds a milestone: yes or no, whichever it came to; first is where yes came about for the first time.
func (l *milestones) mark(at Point, yes, no string, is bool, first **Point, detail string) {
	what := no
	if is {
		what = yes
		if first != nil && *first == nil {
			*first = &at
		}
	}
	if len(l.list) == maxMilestones {
		l.list = append(l.list[:0], l.list[1:]...)
		l.forgotten++
	}
	l.list = append(l.list, Milestone{Point: at, What: what, Detail: detail})
}

func bindOf(e eventlog.Entry, p *eventlog.BindResult) *BindExplanation {
	return &BindExplanation{Point: pointOf(e), Node: p.Node, Outcome: p.Outcome.String(), Message: p.Message}
}
