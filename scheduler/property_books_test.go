package scheduler_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// books follow the entries in the simplest way.
type books struct {
	nodes  map[string]*v1.Node
	pods   map[types.UID]*bookedPod
	names  map[string]types.UID
	groups map[groupKey]declared

	composites map[string]composed
	eras       map[string]era // by gang; none for one that has not come to its minimum
	evicting   map[types.UID]bool
	nominated  map[types.UID]string
	claims     map[types.UID]claim

	questions, preemptions map[types.UID]*bookedQuestion // to extenders
}

type bookedPod struct {
	object *v1.Pod
	group  string // that it named when it came, "" for none
	stage  cluster.Stage
	node   string
}

// groupKey is a PodGroup object of one API.
type groupKey struct {
	resource eventlog.Resource
	name     string
}

func (k groupKey) compare(o groupKey) int {
	return cmp.Or(cmp.Compare(k.resource, o.resource), cmp.Compare(k.name, o.name))
}

func newBooks() books {
	return books{
		nodes:      map[string]*v1.Node{},
		pods:       map[types.UID]*bookedPod{},
		names:      map[string]types.UID{},
		groups:     map[groupKey]declared{},
		composites: map[string]composed{},
		eras:       map[string]era{},
		evicting:   map[types.UID]bool{},
		nominated:  map[types.UID]string{},
		claims:     map[types.UID]claim{},

		questions: map[types.UID]*bookedQuestion{}, preemptions: map[types.UID]*bookedQuestion{},
	}
}

// ready reports whether a cycle could place the pod.
func (b *books) ready(p *bookedPod) bool {
	return p.object.Spec.SchedulerName != "somebody-else" && p.stage == cluster.Pending && !b.leaves(p) &&
		len(p.object.Spec.SchedulingGates) == 0
}

// leaves reports whether the pod is being deleted or was asked to go.
func (b *books) leaves(p *bookedPod) bool {
	return p.object.DeletionTimestamp != nil || b.evicting[p.object.UID]
}

// enter writes an entry into the books and checks what it means for them.
func (h *history) enter(p eventlog.Payload) {
	h.disturb(p)
	switch p := p.(type) {
	case *eventlog.Upserted:
		switch obj := p.Object.(type) {
		case *v1.Node:
			h.nodes[obj.Name] = obj
		case *v1.Pod:
			h.enterPod(obj)
		case *schedulingv1alpha3.CompositePodGroup:
			h.composites[obj.Name] = composedBy(obj)
		default:
			h.groups[groupKey{p.Resource, obj.GetName()}] = declaredBy(obj)
		}
	case *eventlog.Deleted:
		switch p.Resource {
		case eventlog.Nodes:
			delete(h.nodes, p.Name)
		case eventlog.Pods:
			h.strike(p.UID)
		case eventlog.CompositePodGroups:
			delete(h.composites, p.Name)
		default:
			delete(h.groups, groupKey{p.Resource, p.Name})
		}
	case *eventlog.Decision:
		h.enterDecision(p)
	case *eventlog.BindResult:
		h.enterResult(p)
	case *eventlog.ExtenderResult:
		h.enterAnswer(p)
	}
	h.remember()
}

func (h *history) enterPod(obj *v1.Pod) {
	if uid, ok := h.names[obj.Name]; ok && uid != obj.UID {
		h.strike(uid) // another pod has taken its name
	}
	if obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed {
		h.strikeAs(obj.UID, obj.Status.Phase == v1.PodSucceeded)
		return
	}
	p := h.pods[obj.UID]
	if p == nil {
		p = &bookedPod{group: groupOf(obj)}
		h.pods[obj.UID], h.names[obj.Name] = p, obj.UID
	}
	p.object = obj
	if obj.Spec.NodeName != "" {
		p.stage, p.node = cluster.Bound, obj.Spec.NodeName
		delete(h.questions, obj.UID)
		delete(h.preemptions, obj.UID)
	}
}

func (h *history) strike(uid types.UID) { h.strikeAs(uid, false) }

func (h *history) strikeAs(uid types.UID, succeeded bool) {
	if p := h.pods[uid]; p != nil {
		h.ends(uid, succeeded)
		delete(h.names, p.object.Name)
		delete(h.pods, uid)
		delete(h.evicting, uid)
		delete(h.questions, uid)
		delete(h.preemptions, uid)
		h.remember()
	}
}

func (h *history) enterResult(r *eventlog.BindResult) {
	p := h.pods[r.UID]
	if p == nil || p.stage != cluster.Binding {
		return
	}
	switch r.Outcome {
	case eventlog.BindBound:
		p.stage, p.object = cluster.Bound, p.object.DeepCopy()
		p.object.Spec.NodeName = p.node
	case eventlog.BindFailed, eventlog.BindConflict:
		p.stage, p.node = cluster.Pending, ""
	}
}

// enterDecision checks that no node is given more than it has, and no gang's bind is released before its
// minimum has nodes.
func (h *history) enterDecision(d *eventlog.Decision) {
	if d.Outcome == eventlog.Reserved {
		h.enterReservation(d)
		return
	}
	if d.Outcome == eventlog.Evicted {
		h.enterEviction(d)
		return
	}
	if d.Outcome == eventlog.Asked {
		h.enterAsked(d)
		return
	}
	h.checkAnswered(d)
	before := h.standings()
	for _, uid := range d.Rejected {
		h.pods[uid].stage, h.pods[uid].node = cluster.Pending, ""
	}
	h.enterPreemption(d)
	released := slices.Clone(d.Allowed)
	p := h.pods[d.UID]
	waited := p.stage == cluster.Waiting
	switch d.Outcome {
	case eventlog.Scheduled:
		p.stage, p.node = cluster.Binding, d.Node
		released = append(released, d.UID)
	case eventlog.Waiting:
		p.stage, p.node = cluster.Waiting, d.Node
	}
	for _, uid := range d.Allowed {
		h.pods[uid].stage = cluster.Binding
	}
	if d.Node != "" {
		h.checkNode(d, waited)
		if !waited {
			h.checkKept(d)
		}
	}
	for _, uid := range released {
		h.checkComplete(d, h.pods[uid].group, before)
	}
}

func (h *history) checkNode(d *eventlog.Decision, waited bool) {
	n := h.nodes[d.Node]
	if n == nil || n.Spec.Unschedulable && !waited {
		h.fatalf("cycle %d puts %s on node %s, which is gone or cordoned", d.Cycle, d.Name, d.Node)
	}
	h.checkRack(d, waited)
	left, wants := h.left(d.Node), requests(h.pods[d.UID].object)
	for i, name := range resourceNames {
		if wants[i] > 0 && left[i] < 0 {
			h.fatalf("cycle %d puts %s on node %s, which then lacks %d %s", d.Cycle, d.Name, d.Node, -left[i], name)
		}
	}
}

// standing is the state of a gang in the books before a decision.
type standing struct {
	given, well, missed int
	met                 bool
}

func (b *books) standings() map[string]standing {
	all := map[string]standing{}
	for _, group := range groupNamesOfAll {
		e, met := b.eras[group]
		all[group] = standing{given: len(b.keptPlaces(group)), well: len(e.well), missed: b.missed(group), met: met}
	}
	return all
}

// checkComplete: a bind of a gang is released only if its minimum has nodes. Members count that got nodes before, or
// that have ended well since.
func (h *history) checkComplete(d *eventlog.Decision, group string, before map[string]standing) {
	if group == "" {
		return
	}
	terms, was := h.terms(group), before[group]
	if terms.once && was.given > 0 {
		return // the gang had its minimum once
	}
	given := len(h.keptPlaces(group)) + was.well
	if terms.waiting && !(was.met && was.missed == 0 && was.given+was.well < terms.min) {
		given = 0 // bound members do not count, unless this pod takes part again because its bind failed
		// any order: a count
		for _, p := range h.pods {
			if p.group == group && p.stage == cluster.Binding && !h.goes(p) {
				given++
			}
		}
	}
	if !terms.declared || given < terms.min || h.refused(group) {
		h.fatalf(
			"cycle %d releases binds of gang %s with %d members on nodes for good; its minimum is %d (declared: %v, "+
				"refused: %v)",
			d.Cycle,
			group,
			given,
			terms.min,
			terms.declared,
			h.refused(group),
		)
	}
	composite := h.compositeOf(group)
	if composite == "" {
		return
	}
	if _, clear := h.needed(composite); was.met && clear || terms.unclear {
		return // it was admitted with the others once
	}
	assigned := func(group string) int { _, n := h.count(group); return n }
	if !h.admits(group, assigned) {
		h.fatalf(
			"cycle %d releases binds of gang %s, and of %s too few gangs have their minimum",
			d.Cycle,
			group,
			composite,
		)
	}
}

// checkRack: a member of a gang that must stay within one rack goes to one. If the other members are in one, it goes to
// theirs; members that are about to go do not count.
func (h *history) checkRack(d *eventlog.Decision, waited bool) {
	group := h.pods[d.UID].group
	if !waited && group != "" {
		h.checkRackAbove(d)
	}
	if object, ok := h.object(group); waited || group == "" || !ok || !object.inRack {
		return
	}
	rack := racks[d.Node]
	if rack == "" {
		h.fatalf(
			"cycle %d puts %s, which must stay within a rack, on node %s, which is in none",
			d.Cycle,
			d.Name,
			d.Node,
		)
	}
	others := map[string]bool{}
	// any order: fills a set
	for uid, p := range h.pods {
		if n := h.nodes[p.node]; p.group == group && uid != d.UID && n != nil && !h.goes(p) {
			others[racks[p.node]] = true
		}
	}
	if len(others) == 1 && !others[rack] {
		h.fatalf("cycle %d puts %s into rack %s; the others of its gang are in %v", d.Cycle, d.Name, rack, others)
	}
}

// minimum is the minimum of the gang, 1 if nobody declares one.
func (b *books) minimum(group string) (n int, declared bool) {
	terms := b.terms(group)
	return terms.min, terms.declared
}

// count returns the number of the gang's members by stage, without members that give their node up, and the number of
// members that count toward its minimum.
func (b *books) count(group string) (stages map[cluster.Stage]int, assigned int) {
	stages = map[cluster.Stage]int{}
	// any order: counts
	for _, p := range b.pods {
		if p.group == group && !(p.given() && b.goes(p)) {
			stages[p.stage]++
		}
	}
	settled, terms := len(b.keptPlaces(group)), b.terms(group)
	e, met := b.eras[group]
	together := settled + len(e.well)
	switch {
	case terms.once && settled > 0:
		return stages, max(settled, terms.min)
	case terms.waiting && together > 0 && !(met && b.missed(group) == 0 && together < terms.min):
		return stages, stages[cluster.Binding]
	}
	return stages, together
}

// amounts are of the resources in resourceNames; cpu in thousandths of a core.
type amounts [3]int64

var resourceNames = [...]v1.ResourceName{v1.ResourceCPU, gpu, v1.ResourcePods}

func amountsOf(list v1.ResourceList) amounts {
	cpu, gpus, pods := list[v1.ResourceCPU], list[gpu], list[v1.ResourcePods]
	return amounts{cpu.MilliValue(), gpus.Value(), pods.Value()}
}

func requests(p *v1.Pod) amounts {
	a := amountsOf(p.Spec.Containers[0].Resources.Requests)
	a[len(a)-1] = 1
	return a
}

// left is the node's allocatable amount minus the requests of the pods booked on it; it may be negative.
func (b *books) left(node string) amounts {
	left := amountsOf(b.nodes[node].Status.Allocatable)
	// any order: sums
	for _, p := range b.pods {
		if p.node == node {
			for i, amount := range requests(p.object) {
				left[i] -= amount
			}
		}
	}
	return left
}

func (h *history) checkPods() {
	if h.m.Cluster().Pods().Len() != len(h.pods) {
		h.fatalf("the state has %d pods, the books have %d", h.m.Cluster().Pods().Len(), len(h.pods))
	}
	waiting := 0
	// any order: each is compared
	for uid, want := range h.pods {
		p := h.m.Cluster().Pods().Get(uid)
		if p == nil || p.Stage != want.stage || p.Node != want.node {
			h.fatalf("pod %s is %+v; the books have it %s on %q", uid, p, want.stage, want.node)
		}
		if want.stage == cluster.Waiting {
			waiting++
			if _, ok := h.m.WaitingPods().Get(uid); !ok {
				h.fatalf("pod %s is waiting, and Permit does not hold it", uid)
			}
		}
	}
	if n := h.m.WaitingPods().Len(); n != waiting {
		h.fatalf("Permit holds %d pods, the books %d", n, waiting)
	}
}

func (h *history) checkGroups() {
	for _, name := range groupNamesOfAll {
		g := h.m.Cluster().Gangs().Named(namespace, name)
		stages, assigned := h.count(name)
		minimum, declared := h.minimum(name)
		if g == nil {
			if declared || len(stages) > 0 {
				h.fatalf("group %s is not there", name)
			}
			continue
		}
		ready := 0
		// any order: a count
		for _, p := range h.pods {
			if p.group == name && h.ready(p) {
				ready++
			}
		}
		if g.Declared() != declared || g.Min() != minimum || g.Ready() != ready ||
			g.Waiting() != stages[cluster.Waiting] ||
			g.Assigned() != assigned {
			h.fatalf(
				"group %s: declared %v, min %d, ready %d, waiting %d, assigned %d; the books have %v, %d, %d, %d, %d",
				name,
				g.Declared(),
				g.Min(),
				g.Ready(),
				g.Waiting(),
				g.Assigned(),
				declared,
				minimum,
				ready,
				stages[cluster.Waiting],
				assigned,
			)
		}
		if refused := h.refused(name); (g.Refusal() != "") != refused {
			h.fatalf("group %s is refused for %q; the books say %v", name, g.Refusal(), refused)
		}
		h.checkLacks(g, name)
	}
}

// checkLacks compares Lacks with sums over everything.
func (h *history) checkLacks(g *cluster.Group, name string) {
	free, offered := h.free()
	var needs [len(resourceNames)][]int64
	// any order: the requests are sorted
	for _, p := range h.pods {
		if p.group == name && h.ready(p) {
			for i, amount := range requests(p.object) {
				needs[i] = append(needs[i], amount)
			}
		}
	}
	k := g.Min() - g.Assigned() - g.Waiting()
	short := map[v1.ResourceName]cluster.Shortfall{}
	for i, resource := range resourceNames {
		slices.Sort(needs[i])
		need := int64(0)
		for _, amount := range needs[i][:max(0, min(k, len(needs[i])))] {
			need += amount
		}
		if need > free[i] && offered[i] {
			short[resource] = cluster.Shortfall{Resource: resource, Needed: need, Free: free[i]}
		}
	}
	if amount := h.room(name); amount > free[0] && len(short) == 0 && k > 0 {
		short[v1.ResourceCPU] = cluster.Shortfall{Resource: v1.ResourceCPU, Needed: amount, Free: free[0], Asked: true}
	}
	got, lacks := h.m.Cluster().Lacks(g)
	if lacks != (len(short) > 0) || lacks && short[got.Resource] != got {
		h.fatalf("group %s lacks %+v (%v); the books say %+v", name, got, lacks, short)
	}
}

// free is the amount left on all nodes together; offered marks the resources of which some node has any.
func (b *books) free() (free amounts, offered [len(resourceNames)]bool) {
	offered = [...]bool{true, false, true}
	// any order: sums
	for name, n := range b.nodes {
		for i, amount := range b.left(name) {
			free[i] += max(0, amount)
		}
		if _, ok := n.Status.Allocatable[gpu]; ok {
			offered[1] = true
		}
	}
	return free, offered
}

// checkQueue compares the queue with the pods of our schedulers that have no node, or none for certain.
func (h *history) checkQueue() {
	if h.m.Queue() == nil {
		return
	}
	want := map[types.UID]string{}
	// any order: fills a map
	for uid, p := range h.pods {
		ours := p.object.Spec.SchedulerName != "somebody-else"
		if ours && p.stage != cluster.Bound && (p.stage != cluster.Pending || !h.leaves(p)) {
			want[uid] = fmt.Sprintf("%s held=%v", h.entity(p), p.stage != cluster.Pending)
		}
	}
	got := map[types.UID]string{}
	for _, e := range h.m.Queue().All() {
		if want := map[byte]fwk.EntityKeyType{
			'g': fwk.PodGroupKeyType,
			'c': fwk.CompositePodGroupKeyType,
			'm': fwk.CompositePodGroupKeyType,
			'p': fwk.PodKeyType,
		}; e.Type() != want[e.Key().Name[0]] {
			h.fatalf("entity %v is of the wrong type", e.Key())
		}
		for _, p := range e.Ready() {
			if group := h.pods[p.UID].group; group != "" && h.refused(group) {
				h.fatalf("gang %s is refused, and %s is ready", group, p.Name)
			}
		}
		for _, p := range e.Pending() {
			got[p.UID] = fmt.Sprintf("%s held=%v", e.Key().Name, false)
		}
		for _, uid := range e.PlacedMembers() {
			got[uid] = fmt.Sprintf("%s held=%v", e.Key().Name, true)
		}
	}
	if !maps.Equal(want, got) {
		h.fatalf("the queue has %v, the books %v", got, want)
	}
}

// checkEffects: the effects bind the pods that are being bound, in order.
func (h *history) checkEffects() {
	want, got := map[types.UID]string{}, map[types.UID]string{}
	// any order: fills a map
	for uid, p := range h.pods {
		if p.stage == cluster.Binding {
			want[uid] = p.node
		}
	}
	last := uint64(0)
	for _, x := range h.m.Effects() {
		if x.Seq < last || h.pods[x.UID] == nil || x.Name != h.pods[x.UID].object.Name {
			h.fatalf("effect %+v after one of entry %d", x, last)
		}
		if last = x.Seq; x.Kind == scheduler.Bind {
			got[x.UID] = x.Node
		} else if x.Kind == scheduler.Evict && !h.evicting[x.UID] {
			h.fatalf("effect %+v: nobody evicted the pod", x)
		}
	}
	asked := h.asked()
	if !maps.Equal(want, got) || len(h.m.Effects()) != len(want)+len(h.evicting)+len(asked) ||
		asks(h.m.Effects()) != len(asked) {
		h.fatalf("effects are %v, the books have %v being bound", h.m.Effects(), want)
	}
}

// checkIdle checks the state in which nothing is left to decide.
func (h *history) checkIdle() {
	h.m.WaitingPods().Each(func(w *cluster.Wait) bool {
		p := h.pods[w.Pod.Object.UID]
		stages, assigned := h.count(p.group)
		if h.terms(p.group).waits {
			return true
		}
		if minimum, _ := h.minimum(
			p.group,
		); !h.shape.approval ||
			p.group != "" && assigned+stages[cluster.Waiting] < minimum {
			h.fatalf("nothing is left to decide, and %s is held", w.Pod.Object.UID)
		}
		if c := h.compositeOf(p.group); c != "" && stages[cluster.Binding]+stages[cluster.Bound] == 0 {
			placed := func(group string) int {
				stages, assigned := h.count(group)
				return assigned +
					stages[cluster.Waiting]
			}
			if !h.admits(p.group, placed) {
				h.fatalf("nothing is left to decide, and %s is held for others of %s", w.Pod.Object.UID, c)
			}
		}
		return true
	})
	h.checkFallen()
	if c := h.m.Queue().Counts(); c.InFlight > 0 || c.Active > 0 && h.policy == "" {
		h.fatalf("nothing is left to decide, and the queue has %+v", c)
	}
	if wake, ok := h.m.Wake(); ok && eventlog.TimeOf(wake) <= h.now {
		h.fatalf("nothing is left to decide at %s, and the Machine should have been woken at %s", h.now, wake)
	}
}

// pending returns, by entity, the pods of our schedulers that a cycle could place.
func (b *books) pending() map[string][]*bookedPod {
	pending := map[string][]*bookedPod{}
	for _, uid := range slices.Sorted(maps.Keys(b.pods)) {
		if p := b.pods[uid]; b.ready(p) {
			pending[b.entity(p)] = append(pending[b.entity(p)], p)
		}
	}
	return pending
}

// checkPlaced: nothing pends that certainly fits, unless it is for somebody's approval that never comes.
func (h *history) checkPlaced() {
	if h.shape.approval || h.shape.racks || h.policy != "" && len(h.pending()) > 1 {
		return // in a line, one may wait for another
	}
	// any order: each is checked
	for name, pods := range h.pending() {
		if pods[0].group != "" && name != pods[0].group {
			h.checkPlacedTogether(name, pods)
			continue
		}
		missing := 1
		if pods[0].group != "" {
			minimum, declared := h.minimum(name)
			_, assigned := h.count(name)
			free, _ := h.free()
			missing = max(1, minimum-assigned)
			if object, _ := h.object(name); object.inRack {
				continue // whether a rack has room for it is not for the books
			}
			if !declared || missing > len(pods) || h.refused(name) || h.room(name) > free[0] {
				continue
			}
		}
		// A pod that fits nowhere even alone takes nothing from the others.
		able := slices.DeleteFunc(slices.Clone(pods), func(p *bookedPod) bool { return !h.fits([]*bookedPod{p}, 1) })
		if len(able) >= missing && (missing == 1 || h.fits(able, missing)) {
			h.fatalf("%s was left pending: %d of its %d pods fit", name, missing, len(pods))
		}
	}
}

// fits reports whether k of the pods find nodes whichever nodes the ones before them got. It is certain of a yes
// only: if all fit one node, or if they are alike and there are k places.
func (b *books) fits(pods []*bookedPod, k int) bool {
	alike, all, places := true, amounts{}, int64(0)
	for _, p := range pods {
		if len(p.object.Spec.Containers[0].Ports) > 0 {
			return false
		}
		alike = alike && requests(p.object) == requests(pods[0].object)
		for i, amount := range requests(p.object) {
			all[i] += amount
		}
	}
	one := requests(pods[0].object)
	// any order: a sum
	for name, n := range b.nodes {
		if n.Spec.Unschedulable {
			continue
		}
		here, together := int64(1000), true
		for i, left := range b.left(name) {
			if all[i] > 0 && left < all[i] {
				together = false
			}
			if one[i] > 0 {
				here = min(here, max(0, left)/one[i])
			}
		}
		if together {
			return true
		}
		places += here
	}
	return alike && places >= int64(k)
}
