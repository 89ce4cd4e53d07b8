package scheduler

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// evictFallen decides to evict the rest of a gang that had its minimum, has lost members, and asks for that. It returns
// false if no such gang has a member that was not asked to leave yet. A member whose bind is under way follows when the
// result of the bind is known.
//
// A member that was evicted for pods that no longer wait may stay. While the gang would have its minimum with these
// members, evictFallen waits for the results of their evictions.
func (m *Machine) evictFallen() (d eventlog.Decision, ok bool) {
	fallen := m.cluster.Gangs().Fallen()
	if len(fallen) == 0 {
		return eventlog.Decision{}, false
	}
	mayStay := m.mayStay()
	for _, g := range fallen {
		if g.Refusal() != "" && !g.RefusedForParts() {
			continue // its minimum is not known
		}
		if n := mayStay[g]; n > 0 && g.Placed()+g.Succeeded()+n >= g.Min() {
			continue
		}
		for _, p := range g.Members() {
			if p.Stage != cluster.Bound || p.Object.DeletionTimestamp != nil || m.effects.has(p.Object.UID, Evict) ||
				!plansGangs(m.profiles.of(p.Object)) {
				continue
			}
			if !ok {
				d, ok = m.decisionOn(p), true
			}
			d.Victims = append(d.Victims, p.Object.UID)
		}
		if ok {
			d.Outcome = eventlog.Evicted
			d.Rejections = []eventlog.Rejection{
				{Plugin: coscheduling.Name, Code: fwk.Unschedulable.String(), Reason: whyFallen(g)},
			}
			return d, true
		}
	}
	return eventlog.Decision{}, false
}

// mayStay counts the members of each gang whose eviction was asked for, is no longer wanted, and has no result yet.
func (m *Machine) mayStay() map[*cluster.Group]int {
	counts := map[*cluster.Group]int{}
	for _, x := range m.Unwanted() {
		if p := m.cluster.Pods().Get(x.UID); p != nil && p.Group != nil && p.OnlyAsked() {
			counts[p.Group]++
		}
	}
	return counts
}

func whyFallen(g *cluster.Group) string {
	why := fmt.Sprintf("pod group %s has %d left of the %d members it needs", g, g.Placed(), g.Min())
	if n := g.Succeeded(); n > 0 {
		why += fmt.Sprintf(", besides %d that ended well", n)
	}
	return why + ", and asks for the rest to be evicted then"
}
