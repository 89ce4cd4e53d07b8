package auditor

import (
	"maps"
	"slices"
	"time"
)

// standing is an entity that waits for its turn in a profile's lane and lacks something that it needs.
type standing struct {
	entity   string
	priority int32
	since    time.Time // the time at which it was first ready
}

// before reports whether s comes before o in its lane; if they are equal, neither does.
func (s standing) before(o standing) bool {
	return s.priority > o.priority || s.priority == o.priority && s.since.Before(o.since)
}

// standingOf returns the standing of a pod's entity.
func (s *state) standingOf(p *pod) standing {
	out := standing{entity: s.entityOf(p), priority: s.standsWith(p), since: p.ready}
	if g := s.groups[p.gang]; g != nil {
		out.since = g.complete
		for _, o := range s.gangsWith(g) { // they are one entity
			if !o.complete.IsZero() && o.complete.Before(out.since) {
				out.since = o.complete
			}
		}
	}
	return out
}

// lacking returns the entities of a profile that wait and lack something they need. It leaves out the uncertain ones:
// gangs that are admitted with others, that had their minimum before, and that may contradict themselves.
func (s *state) lacking(profile string) (all []standing) {
	seen := map[string]bool{}
	for _, p := range s.sortedPods() {
		if p.object.Spec.SchedulerName != profile || p.stage != pending || p.gated() || p.leaving {
			continue
		}
		g := s.groups[p.gang]
		if g != nil && (seen[g.name] || !s.gangLacks(g)) {
			continue
		}
		if g != nil {
			seen[g.name] = true
		}
		all = append(all, s.standingOf(p))
	}
	return all
}

// gangLacks reports whether a gang surely could be tried and has not its minimum.
func (s *state) gangLacks(g *group) bool {
	t := s.terms(g)
	good, held, ready := s.tally(g)
	return t.minimum > 0 && len(t.together) == 0 && (g.core == nil || g.core.Spec.Parent == "") && !g.wasPlaced &&
		good < t.minimum && good+held+ready >= t.minimum && !s.mayContradict(g)
}

// mayContradict reports whether a gang's members differ in a forbidden way, so that it may be refused.
func (s *state) mayContradict(g *group) bool {
	members := s.members(g.name)
	object := g.core
	ownPriority := object != nil && (object.Spec.Priority != nil || object.Spec.PriorityClassName != "")
	return slices.ContainsFunc(members, func(p *pod) bool {
		first := members[0].object
		return p.object.Spec.SchedulerName != first.Spec.SchedulerName ||
			!ownPriority && p.object.Spec.Priority != first.Spec.Priority ||
			!maps.Equal(ownAnnotations(p.object), ownAnnotations(first)) || p.naming != members[0].naming
	})
}

// ownAnnotations are a pod's annotations about its gang.
func ownAnnotations(o *podObject) map[string]string {
	own := map[string]string{}
	for key, value := range o.Metadata.Annotations {
		if key != "rollcall.dev/duration" && key != "rollcall.dev/arrival" {
			own[key] = value
		}
	}
	return own
}

// checkLane checks that under StrictFIFO no pod is placed before an entity of its profile that comes first and lacks
// something. The exception is a pod that goes to room that a Decision kept for it, and has no lower priority.
func (a *auditor) checkLane(p *pod, d *decision) {
	const check = "fifo"
	profile := a.profiles[p.object.Spec.SchedulerName]
	if profile == nil || profile.policy != "StrictFIFO" {
		return
	}
	a.asked(check)
	mine := a.standingOf(p)
	for _, first := range a.lacking(p.object.Spec.SchedulerName) {
		if p.own && p.nominated == d.Node && first.priority == mine.priority && a.keptForAll(p) {
			continue // it goes to room kept for it, which is not free for the first one
		}
		if first.entity != mine.entity && first.before(mine) {
			a.find(check, "pod %s is placed before %s, which has priority %d since %s, and it %d since %s", p.name,
				first.entity, first.priority, first.since.Format(time.RFC3339), mine.priority,
				mine.since.Format(time.RFC3339))
		}
	}
}

// keptForAll reports whether Decisions kept room for all members that a pod's gang lacks: a gang that is nominated in
// part passes no other. For gangs that are admitted with others the auditor is not sure.
func (s *state) keptForAll(p *pod) bool {
	g := s.groups[p.gang]
	if g == nil {
		return true
	}
	t := s.terms(g)
	if len(t.together) > 0 || g.core != nil && g.core.Spec.Parent != "" {
		return true
	}
	good, held, _ := s.tally(g)
	for _, o := range s.members(g.name) {
		if o.stage == pending && o.own {
			good++
		}
	}
	return good+held >= t.minimum
}

// isAdmittedWithOthers reports whether a pod's gang is admitted together with others. The auditor does not add up
// their needs.
func (s *state) isAdmittedWithOthers(p *pod) bool {
	g := s.groups[p.gang]
	return g != nil && (len(s.terms(g).together) > 0 || g.core != nil && g.core.Spec.Parent != "")
}

// keepsNothingInLane reports whether a nominated pod keeps no room from a pod that is before it in its lane. It may
// have a lower priority than the first one, or its gang may be nominated in part, so that it cannot pass. It also
// returns true if the auditor is not sure.
func (s *state) keepsNothingInLane(nominated, p *pod) bool {
	profile := s.profiles[p.object.Spec.SchedulerName]
	if profile == nil || profile.policy == "BestEffort" ||
		nominated.object.Spec.SchedulerName != p.object.Spec.SchedulerName {
		return false
	}
	g := s.groups[nominated.gang]
	if s.priorityOf(nominated) < s.standingOf(p).priority || s.isAdmittedWithOthers(nominated) {
		return true
	}
	if g == nil {
		return false
	}
	t := s.terms(g)
	good, held, _ := s.tally(g)
	for _, o := range s.members(g.name) {
		if o.stage == pending && o.nominated != "" {
			good++
		}
	}
	return good+held < t.minimum
}

// reservation is the room that is kept for a lane's first entity.
type reservation struct {
	entity, gang string
	uids         []string
	places       []place
	at           time.Time
	// promised is the earliest time of the entity's reservations, as long as no change has invalidated it; zero
	// otherwise.
	promised time.Time
	standing standing
}

// reserve records a reservation, and checks that there will be room for it.
func (a *auditor) reserve(p *pod, d *decision) {
	const check = "reservation"
	profile := p.object.Spec.SchedulerName
	a.asked(check)
	before := a.reserved[profile]
	delete(a.reserved, profile)
	if len(d.Places) == 0 {
		return
	}
	r := &reservation{
		entity: a.entityOf(p), gang: p.gang, places: d.Places, at: d.WaitUntil, promised: d.WaitUntil,
		standing: a.standingOf(p),
	}
	for _, place := range d.Places {
		r.uids = append(r.uids, place.UID)
		if a.nodes[place.Node] == nil {
			a.find(check, "room is reserved for %s on %s, which is not there", r.entity, place.Node)
		}
	}
	if before != nil && before.entity == r.entity && !before.promised.IsZero() {
		if before.promised.Before(r.promised) {
			r.promised = before.promised
		}
	}
	if !a.plain(r) || a.recorded {
		r.promised = time.Time{}
	}
	a.reserved[profile] = r
	a.checkInTheWay(r, "")
}

// plain reports whether the entity needs nothing but room, and no other pod's rules depend on its place, so that a
// reservation is a promise. Whether affinity, spread, ports and volumes leave the room usable is not known in advance.
func (a *auditor) plain(r *reservation) bool {
	for _, other := range a.pods {
		if len(other.object.Spec.Affinity.PodAntiAffinity.Required) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(r.uids, func(uid string) bool {
		p := a.pods[uid]
		return p == nil || !p.asksForRoomOnly()
	})
}

// asksForRoomOnly reports whether the places of other pods do not matter to the pod, except for their requests.
func (p *pod) asksForRoomOnly() bool {
	spec := &p.object.Spec
	return len(spec.Affinity.PodAffinity.Required)+len(spec.Affinity.PodAntiAffinity.Required)+
		len(spec.TopologySpreadConstraints)+len(p.claims())+len(p.ports()) == 0
}

// declaredEnd is the time at which a pod on a node ends according to its declaration. ok is false if it declares
// nothing. A pod that runs longer than declared is expected to end at any moment.
func (a *auditor) declaredEnd(p *pod) (at time.Time, ok bool) {
	length, ok := p.declared()
	return p.placed.Add(length), ok
}

// declared is the time for which a pod declares to hold its room.
func (p *pod) declared() (length time.Duration, ok bool) {
	length, err := time.ParseDuration(p.object.Metadata.Annotations["rollcall.dev/duration"])
	ok = err == nil && length > 0
	if deadline := time.Duration(p.object.Spec.ActiveDeadlineSeconds) * time.Second; deadline > 0 &&
		(!ok || deadline < length) {
		return deadline, true
	}
	return length, ok
}

// checkReservation checks that a pod that passes the first of its lane does not block its reservation, and notes
// changes to a promise.
func (a *auditor) checkReservation(p *pod, d *decision) {
	mine := a.standingOf(p)
	for profile, r := range a.reserved {
		switch {
		case r.entity == mine.entity:
			continue
		case a.isPlaced(r):
			delete(a.reserved, profile)
			continue
		case profile != p.object.Spec.SchedulerName, mine.before(r.standing):
			r.promised = time.Time{} // it need not respect the reservation
			continue
		}
		a.asked("reservation")
		stage, node, placed := p.stage, p.node, p.placed
		p.stage, p.node, p.placed = going, d.Node, a.now
		a.checkInTheWay(r, p.uid)
		p.stage, p.node, p.placed = stage, node, placed
	}
}

// checkInTheWay checks that each node has room for its reservation beside the pods that will still be there. With a
// UID, it checks only that pod's node: earlier obstacles are not its fault.
func (a *auditor) checkInTheWay(r *reservation, uid string) {
	for _, name := range a.sortedNodes() {
		if uid != "" && a.pods[uid].node != name {
			continue
		}
		there := amounts{}
		reserved := false
		for _, place := range r.places {
			if p := a.pods[place.UID]; p != nil && place.Node == name {
				there.add(p.requests)
				reserved = true
			}
		}
		for _, p := range a.on(name) {
			if end, ok := a.declaredEnd(p); !slices.Contains(r.uids, p.uid) && (!ok || end.After(r.at)) {
				there.add(p.requests)
			}
		}
		for resource, n := range there {
			if offered := a.nodes[name].Status.Allocatable.of(resource); reserved && n.Cmp(offered) > 0 {
				a.find("reservation", "on %s %s of %s are needed at %s, with what is reserved for %s, and %s are there",
					name, n.RatString(), resource, r.at.Format(time.RFC3339), r.entity, offered.RatString())
			}
		}
	}
}

// isPlaced reports whether all pods that room was reserved for are on nodes, or have ended. It is also true if their
// gang, or one of the gangs admitted with it, has its minimum with other members: then these are not needed.
func (a *auditor) isPlaced(r *reservation) bool {
	if g := a.groups[r.gang]; g != nil &&
		slices.ContainsFunc(a.gangsWith(g), func(o *group) bool { return o.wasPlaced }) {
		return true
	}
	return !slices.ContainsFunc(r.uids, func(uid string) bool {
		return a.pods[uid] != nil &&
			a.pods[uid].stage == pending
	})
}

// checkPromises checks that no entity waits past the time of its reservation by more than the longest backoff. An
// entity that failed a moment before its room is free is not tried before its backoff is over. A promise no longer
// holds when a node has changed, when a pod runs longer than it declared, or declares nothing, or when the entity has
// changed.
func (a *auditor) checkPromises(next *entry) {
	for profile, r := range a.reserved {
		if a.isPlaced(r) {
			delete(a.reserved, profile)
			continue
		}
		lacks := slices.ContainsFunc(a.lacking(profile), func(s standing) bool { return s.entity == r.entity })
		if !lacks || r.promised.IsZero() || !next.Time.After(r.promised.Add(a.backoff)) {
			continue
		}
		a.find("reservation", "%s still waits at %s, and had a reservation for %s", r.entity,
			next.Time.Format(time.RFC3339), r.promised.Format(time.RFC3339))
		r.promised = time.Time{}
	}
}

// breakPromises forgets the promises: there was a change that no promise can foresee.
func (a *auditor) breakPromises() {
	for _, r := range a.reserved {
		r.promised = time.Time{}
	}
}
