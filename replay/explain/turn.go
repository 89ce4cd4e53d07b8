package explain

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// turn says whether an entity of the queue was ahead of a gang, or with which rule it could overtake the gang.
type turn struct {
	ahead  bool
	rule   answer.Overtook // "" if it was ahead
	why    string
	lacked v1.ResourceName // what all nodes together had too little of for the gang, "" if nothing certainly
}

// before judges, on the state that a decision is made on, the entities of the pods that it places. An attempt is judged
// where it begins, because the entity was chosen there. x is the gang's entity, nil if the queue has none.
func (p *passers) before(m *scheduler.Machine, g *cluster.Group, x *queue.Entity, d *eventlog.Decision) {
	if !p.open {
		return
	}
	clear(p.turns)
	by, pod := m.Queue().Find(d.UID), m.Cluster().Pods().Get(d.UID)
	if by == nil || by == x || pod == nil {
		return
	}
	switch d.Outcome {
	case eventlog.Evicted, eventlog.Reserved, eventlog.Asked:
		return
	}
	begins := pod.Stage == cluster.Pending && by.State() != queue.InFlight
	if begins && (isGang(by) || d.Outcome == eventlog.Waiting) {
		p.begun[by.Key()] = judge(m, g, x, by)
	}
	placed := d.Allowed
	if d.Outcome == eventlog.Scheduled {
		placed = append([]types.UID{d.UID}, d.Allowed...)
	}
	for _, uid := range placed {
		each := m.Queue().Find(uid)
		if each == nil || each == x {
			continue
		}
		t, known := p.begun[each.Key()]
		if !known {
			t = judge(m, g, x, each)
		}
		p.turns[uid] = t
	}
}

// judge judges an entity in the present state.
func judge(m *scheduler.Machine, g *cluster.Group, x, by *queue.Entity) turn {
	if x == nil {
		return turn{rule: answer.NotInQueue, why: "the gang was not in the queue"}
	}
	if m.Queue().GoesBefore(by, x) {
		return turn{ahead: true, why: whyBefore(m.Queue(), by, x)}
	}
	t := turn{}
	if short, lacks := m.Cluster().Lacks(g); lacks {
		t.lacked = short.Resource
	}
	t.rule, t.why = overtakes(m, x, by)
	return t
}

// whyBefore says why entity a has its turn before b.
func whyBefore(q *queue.Queue, a, b *queue.Entity) string {
	since := a.FirstActive()
	switch {
	case q.CompareLanes(a, b) < 0:
		return "its lane goes first"
	case a.Priority() > b.Priority():
		return fmt.Sprintf("priority %d is above %d", a.Priority(), b.Priority())
	case a.Priority() != b.Priority(), since == 0, b.FirstActive() != 0 && since > b.FirstActive():
		return "the order of the queue has it first"
	case since == b.FirstActive():
		return "the same priority and time, and its name comes first"
	}
	return fmt.Sprintf("the same priority, and active since %s", answer.Instant(since))
}

// overtakes names the rule that allows the attempt of an entity though x is before it in the queue.
func overtakes(m *scheduler.Machine, x, by *queue.Entity) (answer.Overtook, string) {
	if by.State() == queue.InFlight || by.State() == queue.Placed {
		return answer.Underway, "its attempt was under way when the gang was complete"
	}
	switch x.State() {
	case queue.Gated:
		return answer.NotInQueue, fmt.Sprintf("%s kept the gang out of the queue", x.GatingPlugin())
	case queue.Placed, queue.InFlight:
		return answer.NotInQueue, "the gang's members were held on nodes"
	}
	policy := scheduler.QueuePolicyOf(m, x.Profile())
	if m.Queue().SameLane(x, by) {
		return overtakesInLane(m, x, by, policy)
	}
	switch {
	case x.State() != queue.Active:
		return answer.BestEffort, "the gang " + whyNotTried(x)
	case policy != "" && policy != string(coscheduling.BestEffort):
		return answer.OtherLane, fmt.Sprintf("the queue policy %s let the gang not be tried, and holds only its own "+
			"lane back", policy)
	}
	return answer.OutOfTurn, "the gang was active: \"rollcall audit order\" judges that"
}

// overtakesInLane says why an entity of x's lane may pass x, or something before x.
func overtakesInLane(m *scheduler.Machine, x, by *queue.Entity, policy string) (answer.Overtook, string) {
	for _, r := range m.Reservations() {
		if r.Key == x.Key() {
			return answer.Backfill, fmt.Sprintf("room is reserved for the gang at %s, and Backfill let others use the "+
				"rest", answer.Instant(r.At))
		}
	}
	switch {
	case x.State() == queue.Active || !m.LetsPass(x):
		if len(m.KeptFor(by.Key())) > 0 {
			return answer.KeptRoom, "the lane let nothing pass, but room was kept on nodes for this one"
		}
		return answer.OutOfTurn, "the gang let nothing pass: \"rollcall audit order\" judges that"
	case policy == string(coscheduling.Backfill):
		return answer.Backfill, fmt.Sprintf("Backfill let others pass: the gang %s", whyNotTried(x))
	}
	return answer.OtherPolicy, fmt.Sprintf("the queue policy %s let others pass: the gang %s", policy, whyNotTried(x))
}

// whyNotTried says why an entity that is not active could not be attempted.
func whyNotTried(x *queue.Entity) string {
	switch {
	case x.State() == queue.Asking:
		return "waited for the answers of HTTP extenders"
	case x.State() == queue.Backoff:
		return fmt.Sprintf("was in backoff until %s", answer.Instant(x.BackoffUntil()))
	case x.Retryable():
		return "waited for room for all of it"
	}
	return "had failed, and nothing had come that asked for a retry"
}

// addAhead names the entities that have their turn before e.
func addAhead(s *answer.QueuePlace, m *scheduler.Machine, e *queue.Entity) {
	all := m.Queue().Ahead(e)
	s.Ahead = len(all)
	for _, other := range all[:min(answer.MaxAhead, len(all))] {
		s.AheadOf = append(s.AheadOf, aheadOf(m, other, e))
	}
	s.MoreAhead = len(all) - len(s.AheadOf)
}

func aheadOf(m *scheduler.Machine, other, e *queue.Entity) answer.AheadEntity {
	key := holderOfEntity(other.Key())
	unschedulable, pending := other.RejectedBy()
	x := answer.AheadEntity{Kind: key.kind, Name: key.name, Priority: other.Priority(), State: other.State().String(),
		ActiveSince: answer.Instant(other.FirstActive()), Attempts: other.Attempts(),
		RejectedBy: slices.Concat(unschedulable, pending)}
	switch other.State() {
	case queue.Active:
		x.Why = whyBefore(m.Queue(), other, e)
	case queue.InFlight:
		x.Why = "its attempt is under way"
	case queue.Asking:
		x.Why = "HTTP extenders were asked about it"
	default:
		x.Why = fmt.Sprintf("the queue policy %s lets none pass it", scheduler.QueuePolicyOf(m, other.Profile()))
	}
	return x
}
