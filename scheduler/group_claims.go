package scheduler

import (
	"cmp"
	"slices"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// The claims of a PodGroup stay reserved for it while its pods come and go. If an attempt on the pods fails while none
// of them has a node, the allocated devices may be the reason. So the devices are given back, as kube-scheduler's
// DynamicResources does in PodGroupPostFilter (deallocatePodGroupClaims). The PodGroup can get other devices then, and
// other pods can get these.

// giveBackClaims asks to give back the claims of the PodGroups in a pod's entity, if the entity's attempt has failed
// with the decision at entry seq. It gives nothing back while the attempt continues, or while a pod of the PodGroup has
// a nomination that a Decision made.
func (m *Machine) giveBackClaims(seq uint64, key queue.Key, p *cluster.Pod, d *eventlog.Decision) {
	if d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error || p.Group == nil ||
		!devices.ShareGroupClaims() {
		return
	}
	if e := m.queue.Get(key); e == nil || e.State() == queue.InFlight {
		return
	}
	for _, g := range p.Group.Unit() {
		if m.nominated.hasOwnIn(g) {
			continue
		}
		if group, idle := m.idleClaimsOf(g); len(idle) > 0 {
			m.effects.add(Effect{Kind: GiveBack, Seq: seq, Namespace: g.Namespace, Name: g.Name, UID: group.UID})
		}
	}
}

// endGiveBacks ends the effects that are done, or that are no longer wanted because a pod has a node by now. It is
// called after each entry. There are hardly ever any such effects.
func (m *Machine) endGiveBacks() {
	for _, x := range m.effects.ofGroups() {
		if len(m.idleClaims(&x)) == 0 {
			m.effects.done(x.UID, GiveBack)
		}
	}
}

// idleClaims returns the claims that an effect asks to give back.
func (m *Machine) idleClaims(x *Effect) []eventlog.DeviceClaim {
	g := m.cluster.Gangs().Named(x.Namespace, x.Name)
	if g == nil {
		return nil
	}
	group, idle := m.idleClaimsOf(g)
	if group == nil || group.UID != x.UID {
		return nil
	}
	return idle
}

// idleClaimsOf returns the gang's PodGroup, nil if there is none, and the claims that may be given back because no pod
// of the gang has a node.
func (m *Machine) idleClaimsOf(g *cluster.Group) (group *schedulingv1beta1.PodGroup, idle []eventlog.DeviceClaim) {
	group, ok := g.ObjectOf(eventlog.PodGroups).(*schedulingv1beta1.PodGroup)
	if !ok || !g.Nodeless() {
		return group, nil
	}
	return group, m.cluster.Devices().IdleClaims(group)
}

// ofGroups returns the effects on PodGroups, in the order of their decisions.
func (e *effects) ofGroups() (all []Effect) {
	for uid := range e.groups { // any order: they are sorted
		all = append(all, e.slots[e.at[effectKey{uid, GiveBack}]])
	}
	slices.SortFunc(all, func(a, b Effect) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.UID, b.UID)) })
	return all
}

// groupSet has the PodGroups with effects. It is derived from the effects.
type groupSet map[types.UID]struct{}
