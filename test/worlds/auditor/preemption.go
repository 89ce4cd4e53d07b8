package auditor

import (
	"slices"
)

// priorityOf is the priority of a pod in preemption: its CompositePodGroup's, its PodGroup's, or its own.
func (s *state) priorityOf(p *pod) int32 {
	g := s.groups[p.gang]
	if g == nil {
		return p.object.Spec.Priority
	}
	composite := s.compositeOf(g)
	if priority, ok := s.declaredPriority(composite); ok {
		return priority
	}
	if composite != nil {
		return s.highestPriority(s.gangsWith(g))
	}
	if priority, ok := s.declaredPriority(g.core); ok {
		return priority
	}
	return p.object.Spec.Priority
}

// gangsWith returns the gangs that a gang is admitted with, itself among them: the ones below the same
// CompositePodGroup, or the ones that name each other.
func (s *state) gangsWith(g *group) (gangs []*group) {
	composite, together := s.compositeOf(g), s.terms(g).together
	for _, o := range s.groups {
		if o == g || composite != nil && s.compositeOf(o) == composite || slices.Contains(together, o.name) {
			gangs = append(gangs, o)
		}
	}
	return gangs
}

// highestPriority is the highest declared priority of the gangs, or else the highest of their pods.
func (s *state) highestPriority(gangs []*group) (highest int32) {
	var given, own []int32
	for _, g := range gangs {
		if priority, ok := s.declaredPriority(g.core); ok {
			given = append(given, priority)
		}
		for _, m := range s.members(g.name) {
			own = append(own, m.object.Spec.Priority)
		}
	}
	switch {
	case len(given) > 0:
		return slices.Max(given)
	case len(own) > 0:
		return slices.Max(own)
	}
	return 0
}

// declaredPriority is an object's declared priority.
func (s *state) declaredPriority(o *groupObject) (priority int32, ok bool) {
	switch {
	case o == nil:
		return 0, false
	case o.Spec.Priority != nil:
		return *o.Spec.Priority, true
	}
	priority, ok = s.priorities[o.Spec.PriorityClassName]
	return priority, ok
}

// neverPreempts reports whether a pod, or its group, forbids preemption for it.
func (s *state) neverPreempts(p *pod) bool {
	g := s.groups[p.gang]
	if g == nil {
		return p.object.Spec.PreemptionPolicy == "Never"
	}
	for _, o := range []*groupObject{s.compositeOf(g), g.core} {
		if o != nil && o.Spec.PreemptionPolicy != "" {
			return o.Spec.PreemptionPolicy == "Never"
		}
	}
	if good, _, _ := s.tally(g); good+g.succeeded >= s.terms(g).minimum {
		return p.object.Spec.PreemptionPolicy == "Never"
	}
	return slices.ContainsFunc(s.members(p.gang), func(m *pod) bool {
		return m.object.Spec.PreemptionPolicy == "Never" && m.stage == pending
	})
}

// standsWith is the priority of a pod's entity in the queue: for gangs that are admitted together, the highest.
func (s *state) standsWith(p *pod) int32 {
	if g := s.groups[p.gang]; g != nil && s.compositeOf(g) == nil && len(s.terms(g).together) > 1 {
		return s.highestPriority(s.gangsWith(g))
	}
	return s.priorityOf(p)
}

// lessImportant checks that pods may be preempted for p, which is called sake, and that the victims are less important
// and on allowed nodes: misplaced returns the fault of a victim's node. It returns the victims, and not ok if one of
// them is not known.
func (a *auditor) lessImportant(
	p *pod, sake string, d *decision, misplaced func(*pod) string,
) (victims without, ok bool) {
	if a.neverPreempts(p) {
		a.find("never", "pods are preempted for %s, which never preempts", sake)
	}
	victims = without{}
	for _, v := range d.Victims {
		victims[v.UID] = true
		victim, err := a.podOf(v.UID)
		if err != nil {
			a.find("preemption", "a victim of %s: %v", sake, err)
			return nil, false
		}
		if wrong := misplaced(victim); wrong != "" {
			a.find("preemption", "pod %s, a victim of %s, %s", victim.name, sake, wrong)
		} else if a.priorityOf(victim) >= a.priorityOf(p) {
			a.find("priority", "pod %s of priority %d is preempted for %s of priority %d", victim.name,
				a.priorityOf(victim), sake, a.priorityOf(p))
		}
	}
	return victims, true
}

// checkPreemption checks the victims of a Decision: they are less important, on nodes, useful, and complete where
// groups must go together.
func (a *auditor) checkPreemption(p *pod, d *decision) {
	const check = "preemption"
	a.asked(check)
	a.asked("priority")
	a.asked("never")
	victims, ok := a.lessImportant(p, p.name, d, func(victim *pod) string {
		if !victim.onNode() {
			return "is on no node"
		}
		return ""
	})
	if !ok {
		return
	}
	a.checkWhole(d, victims)
	node := a.nodes[d.Nominated]
	if g := a.groups[p.gang]; g != nil && len(d.Nominations) > 0 {
		a.checkGangsVictims(p, d, victims)
		return
	}
	if node == nil {
		a.find(check, "pods are preempted for %s, which is nominated to no node", p.name)
		return
	}
	a.checkUse(p, d, node, victims)
	a.checkBudgets(p, victims)
}

// checkTurnedAway checks pods that were held and are released for a pod of another entity: they are victims as well.
func (a *auditor) checkTurnedAway(p *pod, d *decision) {
	for _, uid := range d.Rejected {
		victim := a.pods[uid]
		if victim == nil || a.entityOf(victim) == a.entityOf(p) {
			continue
		}
		a.asked("priority")
		if a.priorityOf(victim) >= a.priorityOf(p) {
			a.find("priority", "pod %s of priority %d is turned away for %s of priority %d", victim.name,
				a.priorityOf(victim), p.name, a.priorityOf(p))
		}
		if a.neverPreempts(p) {
			a.find("never", "pod %s is turned away for %s, which never preempts", victim.name, p.name)
		}
	}
}

// checkWhole checks that a group whose pods are preempted together loses all of them.
func (a *auditor) checkWhole(d *decision, victims without) {
	for _, v := range d.Victims {
		g := a.groups[a.pods[v.UID].gang]
		if g == nil || !a.terms(g).whole {
			continue
		}
		a.asked("whole-groups")
		for _, m := range a.members(g.name) {
			if m.onNode() && !victims[m.uid] && !m.leaving {
				a.find("whole-groups", "pod %s stays, and others of gang %s are preempted", m.name, g.name)
			}
		}
	}
}

// leavingToo returns the victims and all pods that are leaving anyway.
func (a *auditor) leavingToo(victims without) without {
	gone := without{}
	for uid, p := range a.pods {
		if victims[uid] || p.leaving {
			gone[uid] = true
		}
	}
	return gone
}

// checkUse checks, for a pod without a gang, that it fits on its nominated node without the victims, and that none of
// them could stay there.
func (a *auditor) checkUse(p *pod, d *decision, node *nodeObject, victims without) {
	const check = "victims-needed"
	a.asked(check)
	for _, o := range a.obstacles(p, node, a.leavingToo(victims)) {
		a.find(check, "pod %s does not fit on %s without its victims: %s", p.name, d.Nominated, o.why)
	}
	if !p.asksForRoomOnly() || a.reserved[p.object.Spec.SchedulerName] != nil {
		return // the obstacles depend on more than room, or room is kept from the pod too
	}
	for _, v := range d.Victims {
		if g := a.groups[a.pods[v.UID].gang]; g != nil && a.terms(g).whole {
			continue
		}
		kept := without{}
		for uid := range victims {
			kept[uid] = uid != v.UID
		}
		if a.pods[v.UID].node != d.Nominated || a.knowsDevices(p, node) && len(a.obstaclesBeside(p, node, kept)) == 0 {
			a.find(check, "pod %s on %s need not go for %s to fit on %s", a.pods[v.UID].name, a.pods[v.UID].node,
				p.name,
				d.Nominated)
		}
	}
}

// obstaclesBeside is like obstacles, and also counts the pods nominated to the node that are at least as important as
// p.
func (s *state) obstaclesBeside(p *pod, node *nodeObject, gone without) []obstacle {
	for _, other := range s.pods {
		if other != p && other.nominated == node.Metadata.Name && s.keepsRoom(other, p) {
			other.stage, other.node = going, other.nominated
			defer func() { other.stage, other.node = pending, "" }()
		}
	}
	if found := s.obstacles(p, node, gone); len(found) > 0 {
		return found
	}
	return s.obstaclesApart(p, node, gone)
}

// obstaclesApart returns the further obstacles of required anti-affinity if pods of other entities were on their
// nominated nodes, as far as they keep room from the pod.
func (s *state) obstaclesApart(p *pod, node *nodeObject, gone without) (found []obstacle) {
	already := s.obstacles(p, node, gone)
	for _, other := range s.pods {
		if other != p && other.nominated != "" && s.keepsRoom(other, p) && s.entityOf(other) != s.entityOf(p) {
			other.stage, other.node = going, other.nominated
			defer func() { other.stage, other.node = pending, "" }()
		}
	}
	for _, o := range s.obstacles(p, node, gone) {
		if o.check == "pod-affinity" && o.why != notBeside && !slices.Contains(already, o) {
			found = append(found, o)
		}
	}
	return found
}

// keepsRoom reports whether a nominated pod keeps its room from another: it is as important, and is not behind it in a
// lane with room for only a part of its gang.
func (s *state) keepsRoom(nominated, p *pod) bool {
	return nominated.stage == pending && s.priorityOf(nominated) >= s.priorityOf(p) &&
		!(s.standingOf(p).before(s.standingOf(nominated)) && s.keepsNothingInLane(nominated, p))
}

// checkBudgets checks, for a pod without a gang, that no disruption budget is violated if on some node the pod would
// fit without pods that no budget covers.
func (a *auditor) checkBudgets(p *pod, victims without) {
	const check = "budgets"
	profile := a.profiles[p.object.Spec.SchedulerName]
	if g := a.groups[p.gang]; g != nil && len(a.terms(g).required) > 0 {
		return // it cannot go to other domains
	}
	if len(a.budgets) == 0 || profile == nil || profile.policy == "Backfill" || len(p.object.Spec.ResourceClaims) > 0 {
		return
	}
	a.asked(check)
	if !a.violates(victims) {
		return
	}
	for _, name := range a.sortedNodes() {
		free := without{}
		for _, other := range a.on(name) {
			g := a.groups[other.gang]
			if a.priorityOf(other) < a.priorityOf(p) && !a.covered(other) && (g == nil || !a.terms(g).whole) {
				free[other.uid] = true
			}
		}
		if len(a.obstaclesBeside(p, a.nodes[name], free)) == 0 {
			a.find(check, "a disruption budget is violated for %s, and on %s it would fit without that", p.name, name)
			return
		}
	}
}

// covered reports whether a disruption budget covers the pod.
func (a *auditor) covered(p *pod) bool {
	for _, b := range a.budgets {
		if b.covers(p) {
			return true
		}
	}
	return false
}

func (b *budgetObject) covers(p *pod) bool {
	return b.Metadata.Namespace == p.object.Metadata.Namespace && b.Spec.Selector.matches(p.object.Metadata.Labels)
}

// violates reports whether a budget allows fewer evictions than the victims need.
func (a *auditor) violates(victims without) bool {
	for _, b := range a.budgets {
		n := 0
		for uid := range victims {
			if b.covers(a.pods[uid]) {
				n++
			}
		}
		if n > b.Status.DisruptionsAllowed {
			return true
		}
	}
	return false
}

// checkGangsVictims checks that the members of a gang that preempts have room on their nominated nodes, all of them
// together, and that no victim is on another node.
func (a *auditor) checkGangsVictims(p *pod, d *decision, victims without) {
	const check = "victims-needed"
	a.asked(check)
	gone := a.leavingToo(victims)
	rehearsed := map[string]amounts{}
	plain := true
	for _, n := range append(slices.Clone(d.Nominations), place{p.uid, d.Nominated}) {
		m := a.pods[n.UID]
		if m == nil || n.Node == "" || a.entityOf(m) != a.entityOf(p) {
			continue
		}
		plain = plain && m.asksForRoomOnly()
		if rehearsed[n.Node] == nil {
			rehearsed[n.Node] = amounts{}
			for _, other := range a.on(n.Node) {
				if !gone[other.uid] && (other.stage != held || a.entityOf(other) != a.entityOf(p)) {
					rehearsed[n.Node].add(other.requests)
				}
			}
		}
		rehearsed[n.Node].add(m.requests)
	}
	for node, used := range rehearsed {
		for resource, n := range used {
			if a.nodes[node] == nil || n.Cmp(a.nodes[node].Status.Allocatable.of(resource)) > 0 {
				a.find(check, "gang %s does not fit on %s without its victims: %s of %s would be used", p.gang, node,
					n.RatString(), resource)
			}
		}
	}
	for _, v := range d.Victims {
		victim := a.pods[v.UID]
		if g := a.groups[victim.gang]; plain && rehearsed[victim.node] == nil && (g == nil || !a.terms(g).whole) {
			a.find(check, "pod %s on %s need not go for gang %s, of which no member is nominated there", victim.name,
				victim.node, p.gang)
		}
	}
}
