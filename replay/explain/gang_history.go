package explain

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// How long the lists of a history are at most.
const (
	maxAttempts   = 100
	maxMilestones = 50
)

// gangHistory collects, in the second reading, what happened to a gang. Its before and after are called for each entry.
type gangHistory struct {
	group types.NamespacedName
	first *answer.Point

	declared, complete, placed *answer.Point // first times
	was                        condition
	lastMin                    int // when it was last declared
	milestones
	cause   string // the cause of the loss that the entry means for the gang, "" if it is plain
	ends    bool   // with the entry the last needed member goes
	done    bool   // they all did
	evicted *answer.Eviction
	held    bool // the entry at hand is a decision on a pod that is held on a node
	loses   bool // the entry is a decision that evicts members for others

	attempts []answer.GroupAttempt
	omitted  int
	rows     refusedRows // of the last attempt

	entity *queue.Entity // of the last attempt, and which of the entity's it is
	number int
	state  queue.State
	blind  bool // there may have been attempts before the first entry that is taken

	fail, ownFail failure      // of the last attempt: of the entity's, and of the gang's own members
	rest          answer.Point // where the last attempt failed
	now, settled  lasting      // the code that holds, and the last one that is not InFlight

	past       passers
	unreserved *answer.ReservationEnd

	preempted, preemptedBy preemptions
	results                []*answer.EvictResult // the latest result of each eviction that they asked for
	lostTo                 *answer.Preemption    // the last preemption of its members since it was placed
}

// lasting is a code and since when it holds.
type lasting struct {
	code  answer.Code
	since answer.Instant
}

func (h *gangHistory) gang(m *scheduler.Machine) *cluster.Group {
	return m.Cluster().Gangs().Named(h.group.Namespace, h.group.Name)
}

func (h *gangHistory) entityIn(m *scheduler.Machine) *queue.Entity {
	return m.GangEntity(h.group.Namespace, h.group.Name)
}

// concerns reports whether the pod belongs to the gang's entity, or is a member of the gang.
func (h *gangHistory) concerns(m *scheduler.Machine, p *cluster.Pod) bool {
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
func (h *gangHistory) begun(m *scheduler.Machine) {
	if m.Seq() == 0 {
		return
	}
	h.blind = true
	h.reached(m, answer.Point{})
	since := answer.Instant(0) // not known outside the queue
	if h.entity = h.entityIn(m); h.entity != nil {
		h.number, h.omitted, h.state = h.entity.Attempts(), h.entity.Attempts(), h.entity.State()
		since = answer.Instant(h.entity.Since())
	}
	h.note(m, since)
}

// before looks at an entry before it is applied: at the objects that the entry will change or take away.
func (h *gangHistory) before(m *scheduler.Machine, e eventlog.Entry) {
	h.cause, h.held, h.ends, h.loses = "", false, false, false
	defer noteNodeLoss(h, m, e)
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		h.beforeAnyDecision(m, recorded{pointOf(e), p})
	case *eventlog.EvictResult:
		h.heard(e, p)
	case *eventlog.BindResult:
		h.beforeBindResult(m, e, p)
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			h.beforePod(m, pod)
		}
	case *eventlog.Deleted:
		if p.Resource == eventlog.Nodes && slices.ContainsFunc(m.Cluster().GangsOn(p.Name),
			func(g *cluster.Group) bool { return g.Key() == h.group }) {
			h.cause = fmt.Sprintf("node %s is gone", p.Name)
		}
		if pod := m.Cluster().Pods().Get(p.UID); p.Resource == eventlog.Pods && h.isMember(pod) {
			h.cause, h.ends = lost(m, pod, "was deleted"), isLast(pod, false)
		}
	}
}

// beforeAnyDecision looks at a decision, on whichever pod it is.
func (h *gangHistory) beforeAnyDecision(m *scheduler.Machine, r recorded) {
	d := r.decision
	by := h.notePreemption(m, r.at, d)
	h.past.before(m, h.gang(m), h.entityIn(m), d)
	if pod := m.Cluster().Pods().Get(d.UID); h.concerns(m, pod) && !ofResize(pod, d) {
		h.held = pod.Stage == cluster.Waiting
		h.beforeDecision(m, r, pod)
		return
	}
	for _, uid := range d.Rejected {
		if pod := m.Cluster().Pods().Get(uid); h.concerns(m, pod) {
			h.failed(failure{recorded: r, code: answer.BrokenOff, gang: pod.Group.Key(), pod: nameOf(pod.Object),
				by: by})
			return
		}
	}
}

// beforeBindResult looks at the result of a bind.
func (h *gangHistory) beforeBindResult(m *scheduler.Machine, e eventlog.Entry, p *eventlog.BindResult) {
	pod := m.Cluster().Pods().Get(p.UID)
	failed := p.Outcome == eventlog.BindConflict || p.Outcome == eventlog.BindFailed
	late := p.Decision != 0 && p.Decision != m.AskedBy(p.UID, scheduler.Bind)
	if failed && !late && h.concerns(m, pod) && pod.Stage == cluster.Binding && pod.Node == p.Node {
		bind := bindOf(e, p)
		h.cause = fmt.Sprintf("binding %s to %s ended in %s", nameOf(pod.Object), p.Node, phrase.BindOutcome(bind))
		h.failed(failure{recorded: recorded{at: pointOf(e)}, code: answer.BindFailed, gang: pod.Group.Key(),
			pod: nameOf(pod.Object), bind: bind})
	}
}

func (h *gangHistory) isMember(p *cluster.Pod) bool {
	return p != nil && p.Group != nil && p.Group.Key() == h.group
}

func (h *gangHistory) beforePod(m *scheduler.Machine, obj *v1.Pod) {
	pod := m.Cluster().Pods().Get(obj.UID)
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

// isLast says whether a member that goes is the last one of a gang of which, with it, as many as are needed have ended
// well.
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
	if p.Node != "" && m.Cluster().Nodes().Object(p.Node) == nil {
		text += fmt.Sprintf("; its node %s was gone", p.Node)
	}
	return text
}

// beforeDecision judges, on the state that it was made on, a decision that placed nothing.
func (h *gangHistory) beforeDecision(m *scheduler.Machine, r recorded, p *cluster.Pod) {
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

func (h *gangHistory) failed(f failure) {
	h.fail = f
	if f.gang == h.group {
		h.ownFail = f
	}
}

// after looks at the effect of an applied entry on the gang.
func (h *gangHistory) after(m *scheduler.Machine, e eventlog.Entry) {
	at := pointOf(e)
	touched := h.touchedBy(m, at, e.Payload)
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

// touchedBy reports whether an entry may have changed something about the gang, and notes what a decision was.
func (h *gangHistory) touchedBy(m *scheduler.Machine, at answer.Point, payload eventlog.Payload) bool {
	switch p := payload.(type) {
	case *eventlog.Tick:
		return false
	case *eventlog.Decision:
		pod := m.Cluster().Pods().Get(p.UID)
		if h.concerns(m, pod) && !ofResize(pod, p) {
			h.decided(m, at, p, pod)
			return true
		}
		return h.decidedElsewhere(m, at, p) || h.loses
	case *eventlog.BindResult:
		return h.cause != "" || h.concerns(m, m.Cluster().Pods().Get(p.UID))
	case *eventlog.Upserted:
		pod, ok := p.Object.(*v1.Pod)
		return !ok || h.cause != "" || h.concerns(m, m.Cluster().Pods().Get(pod.UID))
	case *eventlog.Deleted:
		return p.Resource != eventlog.Pods || h.cause != "" || h.sharesFate(m)
	}
	return true
}

// sharesFate says whether the gang is admitted with others.
func (h *gangHistory) sharesFate(m *scheduler.Machine) bool {
	g := h.gang(m)
	return g != nil && g.Composite() != nil
}

// note keeps the time since which the reason is the same.
func (h *gangHistory) note(m *scheduler.Machine, at answer.Instant) {
	code, _ := h.code(m)
	if code == h.now.code {
		return
	}
	switch {
	case code == answer.InFlight:
		h.now = lasting{code, at}
	case code == h.settled.code:
		h.now = h.settled
	default:
		h.now = lasting{code, at}
		h.settled = h.now
	}
}

// members counts the gang's own among the pods.
func (h *gangHistory) members(m *scheduler.Machine, uids []types.UID) (n int) {
	for _, uid := range uids {
		if h.isMember(m.Cluster().Pods().Get(uid)) {
			n++
		}
	}
	return n
}

// stopped reports whether an entry that is to be applied next is the last decision of an attempt that failed. The
// attempt is on a gang of the same entity of the queue.
func (h *gangHistory) stopped(m *scheduler.Machine, e eventlog.Entry,
	last func(name types.NamespacedName) uint64) bool {
	d, ok := e.Payload.(*eventlog.Decision)
	if !ok || d.Group == "" || last(types.NamespacedName{Namespace: d.Namespace, Name: d.Group}) != e.Seq {
		return false
	}
	return h.concerns(m, m.Cluster().Pods().Get(d.UID))
}

// needs returns WholeLog for a gang in a composite. It returns EveryEntry while the gang is queued, is passed by
// others, or still has something to explain. After that only entries that name it or its members count. No later state
// counts if no such entry comes and no victims are reported.
func (h *gangHistory) needs(m *scheduler.Machine, ahead []uint64, names *history.Names) history.Need {
	g := h.gang(m)
	if g != nil && g.Composite() != nil {
		return history.WholeLog // the other gangs' entries count as well
	}
	if h.past.open || h.entityIn(m) != nil {
		return history.EveryEntry
	}
	if g != nil {
		if code, _ := h.code(m); code != "" || !knowsMembers(names, g) {
			return history.EveryEntry
		}
	}
	if len(ahead) == 0 && len(h.preempted.list) == 0 && len(h.preemptedBy.list) == 0 {
		return history.NothingMore
	}
	return history.SelectedEntries
}

// heard notes, before an entry is applied, the result of an eviction for the gang, or of its members.
func (h *gangHistory) heard(e eventlog.Entry, p *eventlog.EvictResult) {
	of := func(x answer.Preemption) bool { return x.Seq == p.Decision }
	if slices.ContainsFunc(h.preempted.list, of) || slices.ContainsFunc(h.preemptedBy.list, of) {
		h.results = noteResult(h.results, evictResultOf(e, p))
	}
}

// notePreemption notes, before a decision is applied, what the gang has evicted by it, or loses by it: then it returns
// the preemption, and nil otherwise.
func (h *gangHistory) notePreemption(m *scheduler.Machine, at answer.Point, d *eventlog.Decision) *answer.Preemption {
	if !preempts(d) {
		return nil
	}
	x := preemptionOf(m, at, d, h.isMember)
	switch {
	case x == nil:
	case !x.By.Resize && h.concerns(m, m.Cluster().Pods().Get(d.UID)):
		h.preempted.add(x)
	case x.OwnPods > 0:
		h.preemptedBy.add(x)
		h.lostTo, h.loses = x, true
		return x
	}
	return nil
}
