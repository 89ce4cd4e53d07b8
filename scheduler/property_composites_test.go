package scheduler_test

import (
	"slices"
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// The gangs of generated histories that are admitted with others: how they say so, and what the books make of it.

// compositeNames are the names of CompositePodGroups. They may be below each other, also in a ring.
var compositeNames = []string{"c0", "c0", "c1", "c2"}

// named are the gangs that name each other: always these two.
var named = []string{"g0", "g1"}

// drawComposite has a PodGroup say, mostly, that it is admitted with others.
func (h *history) drawComposite(obj eventlog.Object) {
	annotations := map[string]string{}
	defer func() { obj.SetAnnotations(annotations) }()
	if h.chance(20, "evicts") {
		annotations["rollcall.dev/below-minimum"] = "Evict"
	}
	if policy := h.drawPolicy(); policy != "" {
		annotations[matchPolicy] = policy
	}
	if h.shape.topology && h.chance(40, "stays within a rack") {
		annotations["rollcall.dev/topology-required"] = "rack"
	} else if h.shape.topology && h.chance(30, "had better stay within a rack") {
		annotations["rollcall.dev/topology-preferred"] = "rack"
	}
	if !h.shape.composites {
		return
	}
	if g, ok := obj.(*schedulingv1beta1.PodGroup); ok && h.chance(50, "below a composite") {
		parent := rapid.SampledFrom(compositeNames).Draw(h.t, "parent")
		g.Spec.ParentCompositePodGroupName = &parent
	}
	if slices.Contains(named, obj.GetName()) && h.chance(30, "names others") {
		annotations[koordinator+"groups"] = `["ml/g0","ml/g1"]`
	}
}

func (h *history) declareComposite() {
	name := rapid.SampledFrom(compositeNames).Draw(h.t, "composite")
	c := &schedulingv1alpha3.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("composite-" + name)},
	}
	if n := rapid.Int32Range(0, 3).Draw(h.t, "gangs needed"); n > 0 {
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: n}
	} else {
		c.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
	}
	if h.chance(25, "below another") {
		parent := rapid.SampledFrom(compositeNames).Draw(h.t, "above")
		c.Spec.ParentCompositePodGroupName = &parent
	}
	if h.shape.topology && h.chance(30, "stays within a rack") {
		within := []schedulingv1alpha3.TopologyConstraint{{Key: "rack"}}
		c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: within}
	}
	h.step(&eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c})
}

func (h *history) withdrawComposite() {
	if name, ok := pick(h, h.composites, "composite"); ok {
		h.step(&eventlog.Deleted{Resource: eventlog.CompositePodGroups, Namespace: namespace, Name: name})
	}
}

// composed has the fields of a CompositePodGroup.
type composed struct {
	need   int // 0: its gangs have nothing to do with each other
	parent string
	inRack bool // all that is below it must stay within one rack
}

func composedBy(c *schedulingv1alpha3.CompositePodGroup) composed {
	var out composed
	if gang := c.Spec.SchedulingPolicy.Gang; gang != nil {
		out.need = int(gang.MinGroupCount)
	}
	if c.Spec.ParentCompositePodGroupName != nil {
		out.parent = *c.Spec.ParentCompositePodGroupName
	}
	out.inRack = c.Spec.SchedulingConstraints != nil
	return out
}

// compositeOf is the name in the queue of the composite that admits the gang, "" for none.
func (b *books) compositeOf(group string) string {
	d, _ := b.object(group)
	switch {
	case d.parent != "":
		line, ring := b.above(d.parent)
		for _, name := range line {
			if c, ok := b.composites[name]; ring || !ok || c.need > 0 || c.inRack {
				return name
			}
		}
	case d.named:
		return "ml/g0,ml/g1"
	}
	return ""
}

// above are the composite and those above it, the topmost first; of a ring the first by name.
func (b *books) above(composite string) (line []string, ring bool) {
	for at := composite; at != ""; at = b.composites[at].parent { // a composite that does not exist has ""
		if slices.Contains(line, at) {
			for line[0] != slices.Min(line[:slices.Index(line, at)+1]) {
				line = line[1:]
			}
			return line, true
		}
		line = slices.Insert(line, 0, at)
	}
	return line, false
}

// unit are the gangs that say they are admitted together.
func (b *books) unit(composite string) (groups []string) {
	for _, name := range groupNamesOfAll {
		if b.compositeOf(name) == composite {
			groups = append(groups, name)
		}
	}
	return groups
}

// needed is the number of gangs that the composite needs; ok is false if it is not known, or they contradict each
// other.
func (b *books) needed(composite string) (n int, ok bool) {
	schedulers := map[string]bool{}
	for _, group := range b.unit(composite) {
		own := map[string]bool{}
		// any order: fills sets
		for _, p := range b.pods {
			if p.group == group {
				own[p.object.Spec.SchedulerName] = true
			}
		}
		// any order: fills a set
		for name := range own {
			if len(own) == 1 {
				schedulers[name] = true
			}
		}
	}
	if len(schedulers) > 1 {
		return 0, false
	}
	if strings.Contains(composite, ",") {
		for _, group := range named {
			if b.terms(group).declared && b.compositeOf(group) != composite {
				return 0, false
			}
		}
		return len(named), true
	}
	c, ok := b.composites[composite]
	if _, ring := b.above(composite); !ok || ring {
		return 0, false
	}
	return c.need, true
}

// satisfied reports whether enough gangs and composites directly below a composite fulfil the condition has.
func (b *books) satisfied(composite string, has func(group string) bool) bool {
	need := max(1, b.composites[composite].need)
	if strings.Contains(composite, ",") {
		need = len(named)
	}
	for _, group := range groupNamesOfAll {
		d, _ := b.object(group)
		directly := d.parent == composite || d.named && strings.Contains(composite, ",")
		if directly && has(group) {
			need--
		}
	}
	// any order: a count
	for name, c := range b.composites {
		if c.parent == composite && b.satisfied(name, has) {
			need--
		}
	}
	return need <= 0
}

// checkRackAbove: a member below a composite that must stay within one rack goes to the rack of the others below it.
func (h *history) checkRackAbove(d *eventlog.Decision) {
	group := h.pods[d.UID].group
	object, _ := h.object(group)
	above, _ := h.above(object.parent)
	for _, composite := range above {
		if !h.composites[composite].inRack {
			continue
		}
		// any order: each is compared
		for uid, p := range h.pods {
			other, _ := h.object(p.group)
			others, _ := h.above(other.parent)
			n := h.nodes[p.node]
			if uid == d.UID || p.group == "" || n == nil || h.goes(p) || !slices.Contains(others, composite) {
				continue
			}
			if racks[p.node] != racks[d.Node] || racks[d.Node] == "" {
				h.fatalf("cycle %d puts %s on node %s, in rack %q; %s, which is below %s too, is in rack %q",
					d.Cycle, d.Name, d.Node, racks[d.Node], uid, composite, racks[p.node])
			}
		}
	}
}

// admits reports whether enough gangs have their minimum, by count, of each composite above a gang.
func (b *books) admits(group string, count func(group string) int) bool {
	unit := b.compositeOf(group)
	if _, ok := b.needed(unit); !ok {
		return false
	}
	has := func(group string) bool {
		terms := b.terms(group)
		return terms.declared && !b.refused(group) && count(group) >= terms.min
	}
	d, _ := b.object(group)
	for at := d.parent; at != "" && at != unit; at = b.composites[at].parent {
		if !b.satisfied(at, has) {
			return false
		}
	}
	return b.satisfied(unit, has)
}

// entity is the name of the pod's entity in the queue; names of composites, gangs and single pods differ.
func (b *books) entity(p *bookedPod) string {
	if p.group == "" {
		return p.object.Name
	}
	if c := b.compositeOf(p.group); c != "" {
		return c
	}
	return p.group
}

// checkPlacedTogether: nothing pends of gangs that are all there and certainly all fit.
func (h *history) checkPlacedTogether(composite string, pods []*bookedPod) {
	free, _ := h.free()
	room := int64(0)
	for _, group := range h.unit(composite) {
		ready := 0
		for _, p := range pods {
			if p.group == group {
				ready++
			}
		}
		object, _ := h.object(group)
		above, _ := h.above(object.parent)
		if object.inRack || slices.ContainsFunc(above, func(name string) bool { return h.composites[name].inRack }) {
			return // whether a rack has room for it is not for the books
		}
		minimum, declared := h.minimum(group)
		_, assigned := h.count(group)
		if !declared || h.refused(group) || ready+assigned < minimum {
			return
		}
		room = max(room, h.room(group))
	}
	_, ok := h.needed(composite)
	if !ok || !h.satisfied(composite, func(string) bool { return true }) || room > free[0] {
		return
	}
	if h.fits(pods, len(pods)) {
		h.fatalf("%s was left pending: all of its %d pods fit", composite, len(pods))
	}
}
