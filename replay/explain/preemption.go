package explain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// How long the lists of preemptions and of their victims are at most.
const (
	maxPreemptions = 20
	maxVictims     = 50
)

// preempts reports whether a decision has pods give up their nodes for its own pod or gang. Such a decision evicts
// pods, or releases pods of others that Permit held, and keeps a node for whatever it makes room for.
func preempts(d *eventlog.Decision) bool {
	if d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error {
		return false
	}
	return len(d.Victims) > 0 || len(d.Rejected) > 0 && (d.Nominated != "" ||
		slices.ContainsFunc(d.Nominations, func(n eventlog.Nomination) bool { return n.Node != "" }))
}

// mayPreempt reports whether the decision may have the pod give up its node: whether it does is known with the state.
func mayPreempt(d *eventlog.Decision, uid types.UID) bool {
	return preempts(d) && (slices.Contains(d.Victims, uid) || slices.Contains(d.Rejected, uid))
}

// preemptionOf tells a preemption on the state that it was decided on; own reports which victims are explained. It
// returns nil if the decision preempts nothing.
func preemptionOf(m *scheduler.Machine, at answer.Point, d *eventlog.Decision, own func(*cluster.Pod) bool,
) *answer.Preemption {
	pod := m.Cluster().Pods().Get(d.UID)
	if pod == nil || !preempts(d) {
		return nil
	}
	x := &answer.Preemption{Point: at, By: answer.Preemptor{Pod: decidedPod(d), Nominated: d.Nominated,
		Priority: m.Cluster().Gangs().PriorityOf(pod.Object), Resize: ofResize(pod, d)}}
	if g := pod.Group; g != nil && isGang(m.Queue().Find(d.UID)) && g.Lacking(gang.Assigned) > 0 {
		x.By.Group = g.String()
		if c := g.Composite(); c != nil && c.Namespace != "" && gangsLacking(c, gang.Assigned) > 0 {
			x.By.Composite = c.String()
		}
	}
	for _, uid := range slices.Concat(d.Victims, turnedAway(m, pod, d)) {
		victim := m.Cluster().Pods().Get(uid)
		if victim == nil {
			continue
		}
		x.Pods++
		x.UIDs = append(x.UIDs, uid)
		told := victimOf(m, victim)
		if len(x.Victims) < maxVictims {
			x.Victims = append(x.Victims, told)
		}
		if own != nil && own(victim) {
			if x.OwnPods++; len(x.Own) < maxVictims {
				x.Own = append(x.Own, told)
			}
		}
	}
	if x.Pods == 0 {
		return nil
	}
	return x
}

// turnedAway returns the held pods of other entities that the decision releases for its own pod.
func turnedAway(m *scheduler.Machine, pod *cluster.Pod, d *eventlog.Decision) (uids []types.UID) {
	for _, uid := range d.Rejected {
		if p := m.Cluster().Pods().Get(uid); p != nil && p != pod && !admittedTogether(p, pod) {
			uids = append(uids, uid)
		}
	}
	return uids
}

// admittedTogether reports whether two pods belong to one entity of the queue.
func admittedTogether(a, b *cluster.Pod) bool {
	if a.Group == nil || b.Group == nil {
		return false
	}
	c := a.Group.Composite()
	return a.Group == b.Group || c != nil && c == b.Group.Composite()
}

func victimOf(m *scheduler.Machine, p *cluster.Pod) answer.Victim {
	v := answer.Victim{Pod: nameOf(p.Object), UID: p.Object.UID, Node: p.Node,
		Priority: m.Cluster().Gangs().PriorityOf(p.Object), Held: p.Stage == cluster.Waiting}
	if p.Group != nil {
		v.Group = p.Group.String()
	}
	return v
}

// preemptions are the last ones of a kind.
type preemptions struct {
	list    []answer.Preemption
	omitted int
}

// asOf returns the list with the results of the evictions.
func (p *preemptions) asOf(m *scheduler.Machine, results []*answer.EvictResult) []answer.Preemption {
	for i := range p.list {
		countRemaining(m, &p.list[i])
		addRefused(m, &p.list[i], results)
	}
	return p.list
}

func countRemaining(m *scheduler.Machine, x *answer.Preemption) {
	x.Remaining = 0
	for _, uid := range x.UIDs {
		if p := m.Cluster().Pods().Get(uid); p != nil && p.Node != "" {
			x.Remaining++
		}
	}
}

func (p *preemptions) add(x *answer.Preemption) {
	if x == nil {
		return
	}
	if len(p.list) == maxPreemptions {
		p.list = append(p.list[:0], p.list[1:]...)
		p.omitted++
	}
	p.list = append(p.list, *x)
}

// merge adds the preemptions of another gang. If both lose pods by one decision, their losses are added up.
func (p *preemptions) merge(other *preemptions) {
	p.omitted = max(p.omitted, other.omitted)
	for _, x := range other.list {
		i, known := slices.BinarySearchFunc(p.list, x, func(a, b answer.Preemption) int {
			return cmp.Compare(a.Seq, b.Seq)
		})
		if !known {
			p.list = slices.Insert(p.list, i, x)
			continue
		}
		sum := &p.list[i]
		sum.OwnPods += x.OwnPods
		sum.Own = slices.Concat(sum.Own, x.Own)
		sum.Own = sum.Own[:min(maxVictims, len(sum.Own))]
	}
	if more := len(p.list) - maxPreemptions; more > 0 {
		p.list, p.omitted = p.list[more:], p.omitted+more
	}
}

// noteResult replaces the previous result of an eviction by the new one.
func noteResult(results []*answer.EvictResult, x *answer.EvictResult) []*answer.EvictResult {
	results = slices.DeleteFunc(results, func(old *answer.EvictResult) bool {
		return old.UID == x.UID && old.Decision == x.Decision
	})
	return append(results, x)
}

// addRefused tells what of the results is of victims that have not gone by the preemption.
func addRefused(m *scheduler.Machine, x *answer.Preemption, results []*answer.EvictResult) {
	x.Refused = nil
	for _, r := range results {
		if r.Decision != x.Seq || r.Outcome == eventlog.EvictDone.String() || r.Outcome == eventlog.EvictGone.String() {
			continue
		}
		told := *r
		if until, ok := m.SparedUntil(r.UID); ok && r.Outcome == eventlog.EvictGivenUp.String() {
			told.SparedUntil = answer.Instant(until)
		}
		for _, v := range x.Victims {
			if v.UID == r.UID {
				told.Pod = v.Pod
			}
		}
		if len(x.Refused) == maxVictims {
			x.Refused = x.Refused[1:]
		}
		x.Refused = append(x.Refused, told)
	}
}

// whyEvicted returns the reason in a decision of outcome Evicted.
func whyEvicted(d *eventlog.Decision) string {
	var said []string
	for _, r := range d.Rejections {
		said = append(said, r.Reason)
	}
	return strings.Join(said, "; ")
}
