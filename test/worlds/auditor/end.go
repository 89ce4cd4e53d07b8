package auditor

import (
	"math/big"
	"slices"
	"time"
)

// checkInstant is called before the clock advances: all decisions have been carried out by then, because the virtual
// cluster needs no time for that.
func (a *auditor) checkInstant(next *entry) {
	for _, p := range a.sortedPods() {
		if p.stage == going {
			a.find("effects", "pod %s is to be bound to %s, and no result of the bind has come", p.name, p.node)
			p.stage = bound
		}
		if seq, asked := a.evictions[p.uid]; asked {
			a.find("effects", "pod %s is to be evicted by entry %d, and is still there", p.name, seq)
			delete(a.evictions, p.uid)
		}
		if !a.recorded {
			if wrong := a.outages.overstays(p, a.nodes[p.node], next.Time); wrong != "" {
				a.find("evictions", "%s", wrong)
			}
		}
		end, ok := a.declaredEnd(p)
		if ok {
			end, ok = a.outages.heardEnd(p, end)
		}
		if ok && p.stage == bound && !p.came && !a.recorded && end.Before(next.Time) &&
			p.object.Metadata.DeletionTimestamp == nil {
			a.find("endings", "pod %s on %s was to end at %s, and is still there", p.name, p.node,
				end.Format(time.RFC3339))
			p.came = true
		}
	}
	a.checkGivenBack()
	a.checkPromises(next)
}

// checkRefused checks that a pod without a node could not have had one. It considers only Decisions for which all
// nodes were filtered, and nodes that were not refused because of the future or other members: reservations, and the
// domains of a gang. It skips nodes if the pod claims devices and its possible devices are not known.
func (a *auditor) checkRefused(p *pod, d *decision) {
	const check = "refused"
	profile := a.profiles[p.object.Spec.SchedulerName]
	if profile == nil || d.Outcome != "Unschedulable" ||
		d.Feasible > 0 || int(d.Evaluated) != len(a.nodes) ||
		d.Domain != "" || d.Evaluated == 0 || len(d.Rejected) > 0 {
		return
	}
	for _, r := range d.Rejections {
		if r.Plugin == "Coscheduling" || r.Nodes == 0 {
			return
		}
	}
	a.asked(check)
	for _, name := range a.sortedNodes() {
		node := a.nodes[name]
		unsure := !a.knowsDevices(p, node) || slices.ContainsFunc(a.sortedPods(), func(o *pod) bool {
			return o != p && o.nominated == name && a.isAdmittedWithOthers(o) // it may keep room there, or not
		})
		if !unsure && len(a.obstacles(p, node, nil)) == 0 && len(a.obstaclesBeside(p, node, nil)) == 0 {
			a.find(check, "no node was found for pod %s, and nothing forbids %s", p.name, name)
			return
		}
	}
}

// checkNominations checks that a pod does not take room that is kept for others of the same or higher importance.
func (a *auditor) checkNominations(p *pod, d *decision) {
	const check = "nominations"
	node := a.nodes[d.Node]
	kept := slices.ContainsFunc(a.sortedPods(), func(o *pod) bool {
		return o != p && o.nominated == d.Node && a.keepsRoom(o, p) && a.entityOf(o) != a.entityOf(p)
	})
	// Its own entity's nominations are for it as a whole, and a member of a gang that has too few members left keeps
	// nothing.
	for _, o := range a.pods {
		if o != p && o.nominated == d.Node && (a.entityOf(o) == a.entityOf(p) || a.tooFew(o) ||
			!a.standingOf(o).before(a.standingOf(p)) && a.keepsNothingInLane(o, p)) {
			o.nominated = ""
			defer func() { o.nominated = d.Node }()
		}
	}
	if node != nil {
		for _, o := range a.obstaclesApart(p, node, nil) {
			a.find(check, "pod %s is placed on %s, where a nominated pod must not be beside it: %s", p.name, d.Node,
				o.why)
		}
	}
	if node == nil || !kept {
		return
	}
	a.asked(check)
	for _, o := range a.obstaclesBeside(p, node, nil) {
		if o.check == "capacity" || o.check == "ports" {
			a.find(check, "pod %s is placed on %s, where room is kept: %s", p.name, d.Node, o.why)
		}
	}
}

// tooFew reports whether a pod's gang cannot have its minimum with the members that exist. A gang that counts waiting
// members only cannot when the others are bound.
func (a *auditor) tooFew(p *pod) bool {
	g := a.groups[p.gang]
	if g == nil {
		return false
	}
	t := a.terms(g)
	good, held, ready := a.tally(g)
	return t.waiting || good+held+ready < t.minimum
}

// end checks the rest at the end of the simulation: no pod is forgotten that could be placed.
func (a *auditor) end(until bool) {
	a.checkHeld("")
	a.checkGivenBack()
	for profile := range a.profiles {
		for _, p := range a.sortedPods() {
			if p.object.Spec.SchedulerName != profile || p.stage != pending || p.gated() || p.leaving ||
				len(p.object.Spec.ResourceClaims) > 0 && p.gang != "" {
				continue
			}
			if !until {
				a.checkForgotten(p)
			}
		}
	}
}

// checkForgotten checks that a pod that still waits has no node to go to, if it is its turn.
func (a *auditor) checkForgotten(p *pod) {
	const check = "forgotten"
	g, mine := a.groups[p.gang], a.standingOf(p)
	if node := a.nodes[p.nominated]; node != nil && g == nil {
		a.asked(check) // the room is kept for it, whatever else there is
		if a.knowsDevices(p, node) && len(a.obstacles(p, node, nil)) == 0 &&
			len(a.obstaclesBeside(p, node, nil)) == 0 {
			a.find(check, "pod %s still waits in the end, and nothing forbids %s, where it is nominated", p.name,
				p.nominated)
		}
		return
	}
	if r := a.reserved[p.object.Spec.SchedulerName]; r != nil && r.entity != mine.entity {
		return
	}
	if a.profiles[p.object.Spec.SchedulerName].policy != "BestEffort" && a.mayBeBlocked(p, mine) {
		return
	}
	if g == nil {
		a.asked(check)
		a.checkNoNode(p, nil)
		return
	}
	t := a.terms(g)
	good, held, _ := a.tally(g)
	switch {
	case t.minimum == 0 || t.waiting || a.entityOf(p) != "gang "+p.gang || a.mayContradict(g):
	case good+held >= t.minimum && g.wasPlaced:
		a.asked(check)
		a.checkNoNode(p, t.required)
	case a.gangLacks(g):
		a.asked(check)
		a.checkNoRoom(g, t, t.minimum-good-held)
	}
}

// mayBeBlocked reports whether another entity of the profile waits too, that may come before it in their lane.
func (a *auditor) mayBeBlocked(p *pod, mine standing) bool {
	return slices.ContainsFunc(a.sortedPods(), func(o *pod) bool {
		return o.stage == pending && !o.gated() && o.object.Spec.SchedulerName == p.object.Spec.SchedulerName &&
			a.entityOf(o) != mine.entity && a.standsWith(o) >= mine.priority
	})
}

// mayBeBlocked reports whether another entity of the profile waits too that may come before it in their lane.
func (a *auditor) checkNoNode(p *pod, required []string) {
	for _, name := range a.sortedNodes() {
		node := a.nodes[name]
		outside := slices.ContainsFunc(required, func(key string) bool { return a.outOfDomain(p, node, key) != "" })
		if !outside && a.knowsDevices(p, node) && len(a.obstacles(p, node, nil)) == 0 &&
			len(a.obstaclesBeside(p, node, nil)) == 0 {
			a.find("forgotten", "pod %s still waits in the end, and nothing forbids %s", p.name, name)
			return
		}
	}
}

// checkNoRoom checks that there is no room for needed members of a gang, if they all request the same and need nothing
// but room. Then the order and the places do not matter, and counting them node by node is exact.
func (a *auditor) checkNoRoom(g *group, t terms, needed int) {
	var waiting []*pod
	for _, m := range a.members(g.name) {
		if m.stage == pending && !m.gated() {
			waiting = append(waiting, m)
		}
	}
	first := waiting[0]
	if !first.asksForRoomOnly() || len(t.required) > 1 || g.extra != nil && len(g.extra.Spec.MinResources) > 0 ||
		slices.ContainsFunc(waiting, func(m *pod) bool {
			return !sameRequests(m, first) || len(m.object.Spec.ResourceClaims) > 0
		}) {
		return
	}
	room := map[string]int{}
	for _, name := range a.sortedNodes() {
		domain := ""
		for _, key := range t.required {
			if domain = a.nodes[name].Metadata.Labels[key]; a.outOfDomain(first, a.nodes[name], key) != "" {
				domain = "none"
			}
		}
		if domain != "none" {
			room[domain] += a.fitting(first, a.nodes[name])
		}
	}
	for domain, n := range room {
		if n >= needed {
			a.find("forgotten", "gang %s still waits, and %d of the %d members that it needs fit in domain %q",
				g.name, n, needed, domain)
		}
	}
}

// sameRequests reports whether two pods request the same, and have the same labels and other properties that matter
// for a node's room.
func sameRequests(a, b *pod) bool {
	for resource := range a.requests.plus(b.requests) {
		if a.requests.of(resource).Cmp(b.requests.of(resource)) != 0 {
			return false
		}
	}
	x, y := a.object.Spec, b.object.Spec
	return len(x.NodeSelector)+len(y.NodeSelector) == 0 && x.Affinity.NodeAffinity.Required == nil &&
		y.Affinity.NodeAffinity.Required == nil && len(x.Tolerations) == len(y.Tolerations)
}

// fitting returns the number of pods like p for which a node has room, beside the pods that room is kept for there.
func (a *auditor) fitting(p *pod, node *nodeObject) int {
	if len(a.obstacles(p, node, nil))+len(a.obstaclesBeside(p, node, nil)) > 0 {
		return 0
	}
	used := amounts{}
	for _, other := range a.pods {
		if other.node == node.Metadata.Name && other.onNode() ||
			other.stage == pending && other.nominated == node.Metadata.Name && other.gang != p.gang {
			used.add(other.requests)
		}
	}
	fits := -1
	for resource, wanted := range p.requests {
		if wanted.Sign() == 0 {
			continue
		}
		free := new(big.Rat).Sub(node.Status.Allocatable.of(resource), used.of(resource))
		n := new(big.Rat).Quo(free, wanted.Rat)
		whole := int(new(big.Int).Quo(n.Num(), n.Denom()).Int64())
		if fits < 0 || whole < fits {
			fits = whole
		}
	}
	return max(fits, 0)
}
