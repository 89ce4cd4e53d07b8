package scheduler_test

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// The gangs of generated histories: how their pods say what they are, and what the books make of it.

const (
	koordinator = "gang.scheduling.koordinator.sh/"
	matchPolicy = koordinator + "match-policy"
	kueueName   = "kueue.x-k8s.io/pod-group-name"
	kueueTotal  = "kueue.x-k8s.io/pod-group-total-count"
)

// declared has the fields of a PodGroup.
type declared struct {
	min      int
	priority *int32
	room     int64 // cpu of minResources, in thousandths
	parent   string
	named    bool
	evicts   bool
	inRack   bool   // its members' nodes must be of one rack
	all      bool   // its pods are disrupted together
	policy   string // which members count, by Koordinator's annotation
}

func declaredBy(obj eventlog.Object) declared {
	d := specOf(obj)
	said := obj.GetAnnotations()
	d.named, d.evicts = said[koordinator+"groups"] != "", said["rollcall.dev/below-minimum"] == "Evict"
	d.inRack, d.policy = said["rollcall.dev/topology-required"] != "", said[matchPolicy]
	return d
}

func specOf(obj eventlog.Object) declared {
	switch g := obj.(type) {
	case *xscheduling.PodGroup:
		cpu := g.Spec.MinResources[v1.ResourceCPU]
		return declared{min: int(g.Spec.MinMember), room: cpu.MilliValue()}
	case *schedulingv1beta1.PodGroup:
		return declared{
			min:      int(g.Spec.SchedulingPolicy.Gang.MinCount),
			priority: g.Spec.Priority,
			all:      g.Spec.DisruptionMode != nil,
			parent:   ptr.Deref(g.Spec.ParentCompositePodGroupName, ""),
		}
	}
	return declared{}
}

// groupNames are all names of the pod's group now, beginning with the name that counts.
func groupNames(p *v1.Pod) (names []string) {
	if g := p.Spec.SchedulingGroup; g != nil {
		names = append(names, *g.PodGroupName)
	}
	for _, name := range []string{p.Labels[xscheduling.PodGroupLabel], p.Annotations[koordinator+"name"],
		p.Labels[kueueName]} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// groupOf is the name of the group that the pod names now, "" for none.
func groupOf(p *v1.Pod) string {
	if names := groupNames(p); len(names) > 0 {
		return names[0]
	}
	return ""
}

// object is the PodGroup of scheduling.k8s.io if both APIs declare one.
func (b *books) object(group string) (d declared, ok bool) {
	for _, resource := range []eventlog.Resource{eventlog.PodGroups, eventlog.XPodGroups} {
		if d, ok := b.groups[groupKey{resource, group}]; ok {
			return d, true
		}
	}
	return declared{}, false
}

// gangTerms are the terms of a gang.
type gangTerms struct {
	declared bool
	min      int
	once     bool // the minimum counts only until a member has its node
	waiting  bool // members that are known to be bound do not count
	unclear  bool // members say different things
	evicts   bool // the rest of it, when it has fallen below its minimum
	waits    bool // its members are held until their deadline
}

// asksMore orders terms of members of one gang that do not agree.
func (t gangTerms) asksMore(u gangTerms) bool {
	rank := func(t gangTerms) (n int) {
		for i, holds := range []bool{t.waiting, t.once, t.waits} { // the last counts most
			if holds {
				n += 1 << i
			}
		}
		return n
	}
	return t.min > u.min || t.min == u.min && rank(t) > rank(u)
}

// terms are the object's terms, or else the members'. If members do not agree, the greatest terms count.
func (b *books) terms(group string) gangTerms {
	if d, ok := b.object(group); ok {
		return gangTerms{
			declared: true,
			min:      max(1, d.min),
			evicts:   d.evicts,
			once:     d.policy == "once-satisfied",
			waiting:  d.policy == "only-waiting",
		}
	}
	said := map[string]bool{}
	most := gangTerms{min: 1}
	// any order: the greatest is found
	for _, p := range b.pods {
		min, total := p.object.Annotations[koordinator+"min-available"], p.object.Annotations[kueueTotal]
		if p.group != group || min == "" && total == "" {
			continue
		}
		mode, policy := p.object.Annotations[koordinator+"mode"], p.object.Annotations[matchPolicy]
		said["min "+min+" total "+total+" mode "+mode+" policy "+policy] = true
		n, _ := strconv.Atoi(min + total) // no pod has both
		its := gangTerms{
			declared: true,
			min:      n,
			once:     policy == "" || policy == "once-satisfied",
			waiting:  policy == "only-waiting",
			waits:    mode == "NonStrict",
		}
		if !most.declared || its.asksMore(most) {
			most = its
		}
	}
	most.unclear = len(said) > 1
	return most
}

// room is the cpu that must be free in all before the gang's first member gets its node.
func (b *books) room(group string) int64 {
	stages, _ := b.count(group)
	if d, ok := b.object(group); ok && stages[cluster.Waiting]+stages[cluster.Binding]+stages[cluster.Bound] == 0 {
		return d.room
	}
	return 0
}

// refused reports whether the gang contradicts itself.
func (b *books) refused(group string) bool {
	priorities, schedulers := map[int32]bool{}, map[string]bool{}
	two := false
	// any order: fills sets
	for _, p := range b.pods {
		if p.group != group {
			continue
		}
		priorities[ptr.Deref(p.object.Spec.Priority, 0)], schedulers[p.object.Spec.SchedulerName] = true, true
		for _, name := range groupNames(p.object) {
			two = two || name != groupOf(p.object)
		}
	}
	d, _ := b.object(group)
	return two || d.parent != "" && d.named || b.terms(group).unclear || len(schedulers) > 1 ||
		d.priority == nil && len(priorities) > 1
}

// custom has the values that most pods of one gang share.
type custom struct {
	scheduler string
	priority  int32
	style     string // how they name it: by a PodGroup of either API, or in the way of another project
	min       int
	waits     bool   // Koordinator's mode NonStrict
	policy    string // its match policy, "" for none
}

func (h *history) customOf(group string) custom {
	if c, ok := h.customs[group]; ok {
		return c
	}
	c := custom{
		scheduler: rapid.SampledFrom(h.shape.schedulers).Draw(h.t, "gang's scheduler"),
		priority:  rapid.Int32Range(0, 2).Draw(h.t, "gang's priority"),
		style:     rapid.SampledFrom([]string{"object", "object", "koordinator", "kueue"}).Draw(h.t, "style"),
		min:       rapid.IntRange(1, 4).Draw(h.t, "gang's min"),
		waits:     h.chance(30, "waits on its nodes"),
		policy:    h.drawPolicy(),
	}
	if h.shape.crowded {
		c.priority = rapid.Int32Range(1, 4).Draw(h.t, "gang's rank")
	}
	h.customs[group] = c
	return c
}

// drawPolicy draws Koordinator's match policy, mostly none.
func (h *history) drawPolicy() string {
	return rapid.SampledFrom(
		[]string{"", "", "", "only-waiting", "only-waiting", "once-satisfied", "waiting-and-running"},
	).Draw(
		h.t,
		"match policy",
	)
}

// enlist makes a pod a member of the gang, mostly one that agrees with the others.
func (h *history) enlist(p *v1.Pod, group string) {
	c := h.customOf(group)
	if h.chance(6, "says another minimum") {
		c.min++
	}
	if !h.chance(6, "has another priority") {
		p.Spec.Priority = &c.priority
	}
	if !h.chance(4, "has another scheduler") {
		p.Spec.SchedulerName = c.scheduler
	}
	switch c.style {
	case "koordinator":
		p.Annotations[koordinator+"name"], p.Annotations[koordinator+"min-available"] = group, fmt.Sprint(c.min)
		if c.policy != "" {
			p.Annotations[matchPolicy] = c.policy
		}
		if c.waits {
			p.Annotations[koordinator+"mode"], p.Annotations[koordinator+"waiting-time"] = "NonStrict", "20s"
		}
	case "kueue":
		p.Labels[kueueName] = group
		p.Annotations[kueueTotal] = fmt.Sprint(c.min)
	default:
		if rapid.Bool().Draw(h.t, "by label") {
			p.Labels[xscheduling.PodGroupLabel] = group
		} else {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		}
	}
	if h.chance(3, "names another group") {
		p.Labels[kueueName] = "g3"
	}
}

// drawTerms gives a PodGroup what it may say beside its minimum.
func (h *history) drawTerms(obj eventlog.Object) {
	switch g := obj.(type) {
	case *xscheduling.PodGroup:
		if h.chance(20, "minResources") {
			cpus := rapid.Int64Range(1, 12).Draw(h.t, "cpus")
			g.Spec.MinResources = v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
		}
	case *schedulingv1beta1.PodGroup:
		if h.chance(40, "disrupted together") {
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		}
		if h.chance(30, "priority of its own") {
			priority := rapid.Int32Range(0, 2).Draw(h.t, "group's priority")
			g.Spec.Priority = &priority
		}
	}
}
