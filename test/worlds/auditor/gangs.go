package auditor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// naming is one of the ways in which a pod names its gang; see docs/GANGS.md.
type naming int

const (
	byField naming = iota
	byLabel
	byKoordinator
	byOldLabel
	byKueue
	byVolcano
)

const koordinator = "gang.scheduling.koordinator.sh/"

// gangOf returns the name of the pod's gang, by the first of the ways that it uses; "" if it uses none.
func gangOf(o *podObject) (naming, string) {
	labels, annotations := o.Metadata.Labels, o.Metadata.Annotations
	for way, name := range []string{
		byField:       o.Spec.SchedulingGroup.PodGroupName,
		byLabel:       labels["scheduling.x-k8s.io/pod-group"],
		byKoordinator: annotations[koordinator+"name"],
		byOldLabel:    labels["pod-group.scheduling.sigs.k8s.io"],
		byKueue:       labels["kueue.x-k8s.io/pod-group-name"],
		byVolcano:     annotations["scheduling.k8s.io/group-name"],
	} {
		if name != "" {
			return naming(way), name
		}
	}
	return 0, ""
}

// terms are the requirements of a gang.
type terms struct {
	minimum   int // 0: not given
	nonStrict bool
	once      bool     // once-satisfied
	waiting   bool     // only-waiting: bound members do not count for the waiting ones
	together  []string // the gangs that it is admitted with, itself among them; nil for none
	evict     bool     // below its minimum its remaining members are evicted
	required  []string // labels: all members go to nodes with the same values
	whole     bool     // its pods are preempted together or not at all
}

// terms returns the requirements of a gang: from its object, or else from its members.
func (s *state) terms(g *group) terms {
	var t terms
	members := s.members(g.name)
	var annotated []map[string]string
	object := g.core
	if object == nil {
		object = g.extra
	}
	switch {
	case g.core != nil && g.core.Spec.SchedulingPolicy.Gang != nil:
		t.minimum = g.core.Spec.SchedulingPolicy.Gang.MinCount
	case g.core != nil:
		t.minimum = 1
	case g.extra != nil:
		t.minimum = max(1, g.extra.Spec.MinMember)
	}
	if object != nil {
		annotated = append(annotated, object.Metadata.Annotations)
		t.koordinator(g.name, object.Metadata.Annotations)
		if object.Spec.SchedulingConstraints != nil {
			for _, c := range object.Spec.SchedulingConstraints.Topology {
				t.required = append(t.required, c.Key)
			}
		}
	}
	for _, p := range members {
		annotated = append(annotated, p.object.Metadata.Annotations)
		if object == nil && t.minimum == 0 {
			t.askedBy(g.name, p.object.Metadata.Annotations)
		}
	}
	for _, a := range annotated {
		t.evict = t.evict || a["rollcall.dev/below-minimum"] == "Evict"
		if keys := a["rollcall.dev/topology-required"]; keys != "" && len(t.required) == 0 {
			t.required = strings.Split(keys, ",")
		}
	}
	composite := s.compositeOf(g)
	for _, o := range []*groupObject{composite, g.core} {
		t.whole = t.whole || o != nil && o.Spec.DisruptionMode != nil && o.Spec.DisruptionMode.All != nil
	}
	return t
}

// koordinator reads the annotations that Koordinator allows on objects and members alike.
func (t *terms) koordinator(gang string, a map[string]string) {
	t.nonStrict = a[koordinator+"mode"] == "NonStrict"
	t.once = a[koordinator+"match-policy"] == "once-satisfied"
	t.waiting = a[koordinator+"match-policy"] == "only-waiting"
	if text := a[koordinator+"groups"]; text != "" && json.Unmarshal([]byte(text), &t.together) == nil {
		t.together = append(t.together, gang)
		slices.Sort(t.together)
		t.together = slices.Compact(t.together)
	}
}

// askedBy reads a member's annotations about its gang.
func (t *terms) askedBy(gang string, a map[string]string) {
	number := func(key string) int {
		n, _ := strconv.Atoi(a[key])
		return n
	}
	if n := number(koordinator + "min-available"); n > 0 {
		t.minimum = n
		t.koordinator(gang, a)
		t.once = t.once || a[koordinator+"match-policy"] == ""
	} else if n := number("kueue.x-k8s.io/pod-group-total-count"); n > 0 {
		t.minimum, t.once = n, true
	} else if n := number("scheduling.volcano.sh/group-min-member"); n > 0 {
		t.minimum = n
	}
}

// compositeOf returns the CompositePodGroup that a gang is below, nil for none.
func (s *state) compositeOf(g *group) *groupObject {
	if g.core == nil || g.core.Spec.Parent == "" {
		return nil
	}
	return s.composites[g.core.Metadata.Namespace+"/"+g.core.Spec.Parent]
}

// entityOf names the entity of the pod in the queue: the pod, its gang, or the gangs that are admitted with it.
func (s *state) entityOf(p *pod) string {
	g := s.groups[p.gang]
	switch {
	case g == nil:
		return "pod " + p.uid
	case g.core != nil && g.core.Spec.Parent != "":
		return "composite " + g.core.Metadata.Namespace + "/" + g.core.Spec.Parent
	}
	if t := s.terms(g); len(t.together) > 1 {
		return "gangs " + strings.Join(t.together, ",")
	}
	return "gang " + p.gang
}

// tally counts a gang's members: the ones on nodes permanently, the ones held, and the ones that a cycle could place.
func (s *state) tally(g *group) (good, held, ready int) {
	for _, p := range s.members(g.name) {
		switch {
		case p.stage == going || p.stage == bound:
			good++
		case p.stage == pending && !p.gated() && s.profiles[p.object.Spec.SchedulerName] != nil:
			ready++
		case p.onNode():
			held++
		}
	}
	return good, held, ready
}

// noteComplete notes which gangs have their minimum of members for the first time, and which have it on nodes.
func (s *state) noteComplete() {
	for _, g := range s.groups {
		good, held, ready := s.tally(g)
		t := s.terms(g)
		if g.complete.IsZero() && t.minimum > 0 && good+held+ready >= t.minimum {
			g.complete = s.now
		}
	}
}

// checkHeld checks that no pod of a gang is held while another entity has its turn, or while inputs come in: an
// attempt ends with all or with none. A gang that asks for NonStrict is held until its deadline. next is the entity
// whose turn it is, "" for inputs.
func (a *auditor) checkHeld(next string) {
	for _, p := range a.sortedPods() {
		if p.stage == held && a.entityOf(p) != next && !a.terms(a.groups[p.gang]).nonStrict {
			turn := next
			if next == "" {
				turn = "inputs"
			}
			a.find("held", "pod %s of gang %s is held on %s, and it is the turn of %s", p.name, p.gang, p.node, turn)
			p.release() // report it once
		}
	}
}

// checkDeadlines checks that no pod is held beyond its time.
func (a *auditor) checkDeadlines() {
	for _, p := range a.sortedPods() {
		if p.stage == held && p.waitUntil.Before(a.now) {
			a.find("deadline", "pod %s is held on %s beyond %s", p.name, p.node, p.waitUntil.Format(time.RFC3339Nano))
			p.release()
		}
	}
}

// checkReleased checks, after a Decision, that gangs whose pods may now be bound have their minimum, together with the
// gangs that they are admitted with.
func (a *auditor) checkReleased(p *pod, d *decision) {
	released := slices.Clone(d.Allowed)
	if d.Outcome == "Scheduled" {
		released = append(released, d.UID)
	}
	if d.Outcome == "Waiting" {
		a.asked("held")
		a.asked("deadline")
	}
	var gangs []string
	for _, uid := range released {
		if r := a.pods[uid]; r != nil && r.gang != "" {
			gangs = append(gangs, r.gang)
		}
	}
	slices.Sort(gangs)
	gangs = slices.Compact(gangs)
	first := map[string]bool{}
	for _, name := range gangs {
		first[name] = !a.groups[name].wasPlaced
		a.checkMinimum(a.groups[name])
	}
	for _, name := range gangs {
		if first[name] {
			a.checkTogether(a.groups[name])
		}
	}
}

// checkMinimum checks that a gang with pods that may now be bound has its minimum on nodes permanently.
func (a *auditor) checkMinimum(g *group) {
	const check = "gang-minimum"
	a.asked(check)
	t := a.terms(g)
	good, _, _ := a.tally(g)
	switch {
	case good+g.succeeded >= t.minimum && t.minimum > 0:
		g.wasPlaced = true
	case t.once && g.wasPlaced:
	case t.minimum == 0 && g.wasPlaced:
	default:
		a.find(check, "gang %s is let go with %d of its minimum of %d members", g.name, good+g.succeeded, t.minimum)
	}
}

// checkTogether checks, for a gang that has its minimum for the first time, that enough of the gangs that it must be
// admitted with have it too.
func (a *auditor) checkTogether(g *group) {
	const check = "gangs-together"
	t := a.terms(g)
	others, want := t.together, len(t.together)
	if g.core != nil && g.core.Spec.Parent != "" {
		composite := a.compositeOf(g)
		if composite == nil {
			a.asked(check)
			a.find(check, "gang %s is let go, and its CompositePodGroup %s is not there", g.name, g.core.Spec.Parent)
			return
		}
		others, want = nil, 0
		for _, o := range a.groups {
			if a.compositeOf(o) == composite {
				others = append(others, o.name)
			}
		}
		if gang := composite.Spec.SchedulingPolicy.Gang; gang != nil {
			want = gang.MinGroupCount
		}
	}
	if want < 2 {
		return
	}
	a.asked(check)
	have := 0
	for _, name := range others {
		if o := a.groups[name]; o != nil && o.wasPlaced {
			have++
		}
	}
	if have < want {
		a.find(check, "gang %s is let go, with %d of %d gangs that it is admitted with", g.name, have, want)
	}
}

// checkTopology checks that a gang's pods are in one domain, where that is required.
func (a *auditor) checkTopology(p *pod, d *decision) {
	const check = "topology"
	g, node := a.groups[p.gang], a.nodes[d.Node]
	if g == nil || node == nil {
		return
	}
	for _, key := range a.terms(g).required {
		a.asked(check)
		if why := a.outOfDomain(p, node, key); why != "" {
			a.find(check, "pod %s of gang %s is placed on %s: %s", p.name, p.gang, d.Node, why)
		}
	}
}

// outOfDomain says which other member of the pod's gang is in another domain of the label than the node.
func (s *state) outOfDomain(p *pod, node *nodeObject, key string) string {
	if _, has := node.Metadata.Labels[key]; !has {
		return fmt.Sprintf("the node has no label %s", key)
	}
	for _, other := range s.members(p.gang) {
		if there := s.nodes[other.node]; other != p && other.onNode() && there != nil && !sameDomain(node, there, key) {
			return fmt.Sprintf("%s is on %s, which is another %s", other.name, other.node, key)
		}
	}
	return ""
}

// checkEvicted checks that the rest of a gang is evicted only because it is below its minimum and asked for that.
func (a *auditor) checkEvicted(p *pod, d *decision) {
	const check = "below-minimum"
	a.asked(check)
	g := a.groups[p.gang]
	if g == nil {
		a.find(check, "pod %s of no gang is evicted", p.name)
		return
	}
	t := a.terms(g)
	stay := 0
	for _, m := range a.members(p.gang) {
		if (m.stage == going || m.stage == bound) && !m.leaving {
			stay++
		}
	}
	if !t.evict {
		a.find(check, "the rest of gang %s is evicted, which did not ask for that", g.name)
	}
	for _, v := range d.Victims {
		if m := a.pods[v.UID]; m == nil || m.gang != p.gang || !m.onNode() {
			a.find(check, "the pod with UID %s is evicted with gang %s, and is no member of it with a node", v.UID,
				g.name)
		}
	}
	a.evictedWith(g, t, stay)
}

// evictedWith checks that a gang whose remaining members are evicted lacks a member: the remaining ones, and the ones
// that ended well since it last had its minimum, are not enough.
func (a *auditor) evictedWith(g *group, t terms, stay int) {
	if stay+g.succeeded >= t.minimum && t.minimum > 0 {
		a.find("below-minimum", "the rest of gang %s is evicted, and it has %d of its minimum of %d", g.name,
			stay+g.succeeded, t.minimum)
	}
}
