package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// The events in the world of a generated history: every method below is one action that rapid may choose. An action
// hands its inputs to step, which takes them in as the engine does.

const (
	gpu       = "nvidia.com/gpu"
	namespace = "ml"
)

// shape limits the contents of a kind of history.
type shape struct {
	config     string   // "" for the default configuration
	others     []string // configurations that later epochs may have instead
	schedulers []string // the names that pods may ask for
	interrupts bool     // a step may end before all is decided, as a crash ends it
	foreign    bool     // pods are bound from outside, and nodes shrink
	topology   bool     // some nodes are in racks, and gangs in one of them
	durations  bool     // pods mostly declare one
	composites bool     // gangs are admitted with others
	crowded    bool     // the nodes are full of unimportant pods, and gangs are important
	racks      bool     // some nodes are in racks, which the plugin RackLimit limits
	approval   bool     // the Permit plugin Approval holds some pods as well
	extenders  bool     // HTTP extenders have a say
}

func (h *history) chance(percent int, label string) bool {
	return rapid.IntRange(0, 99).Draw(h.t, label) < percent
}

// pick draws one of the keys of m; ok is false if there is none.
func pick[V any](h *history, m map[string]V, label string) (key string, ok bool) {
	if len(m) == 0 {
		return "", false
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(h.t, label), true
}

func (h *history) uid(name string) types.UID {
	h.uids++
	return types.UID(fmt.Sprintf("%s-%d", name, h.uids))
}

// node actions

func (h *history) joinNode() {
	name := fmt.Sprintf("n%d", rapid.IntRange(0, 4).Draw(h.t, "node"))
	h.step(h.nodeEntry(name, rapid.Int64Range(1, 8).Draw(h.t, "cpu"), rapid.Int64Range(0, 2).Draw(h.t, "gpu"), false))
}

func (h *history) nodeEntry(name string, cpus, gpus int64, cordoned bool) eventlog.Payload {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Spec.Unschedulable = cordoned
	if rack := racks[name]; (h.shape.topology || h.shape.racks) && rack != "" {
		n.Labels = map[string]string{"rack": rack}
	}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:  *resource.NewQuantity(cpus, resource.DecimalSI),
		v1.ResourcePods: *resource.NewQuantity(6, resource.DecimalSI),
	}
	if gpus > 0 {
		n.Status.Allocatable[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

func (h *history) cordonNode() {
	if name, ok := pick(h, h.nodes, "node"); ok {
		n := h.nodes[name].DeepCopy()
		n.Spec.Unschedulable = !n.Spec.Unschedulable
		h.step(&eventlog.Upserted{Resource: eventlog.Nodes, Object: n})
	}
}

func (h *history) shrinkNode() {
	if name, ok := pick(h, h.nodes, "node"); ok {
		h.step(h.nodeEntry(name, rapid.Int64Range(1, 3).Draw(h.t, "cpu"), 0, h.nodes[name].Spec.Unschedulable))
	}
}

func (h *history) loseNode() {
	if name, ok := pick(h, h.nodes, "node"); ok {
		h.step(&eventlog.Deleted{Resource: eventlog.Nodes, Name: name, UID: h.nodes[name].UID})
	}
}

// racks are the racks of nodes; one node is in none.
var racks = map[string]string{"n0": "a", "n1": "a", "n2": "b", "n3": "b"}

// group actions

func (h *history) declareGroup() {
	h.step(h.groupEntry(fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(h.t, "group"))))
}

func (h *history) groupEntry(name string) eventlog.Payload {
	minimum := rapid.Int32Range(1, 5).Draw(h.t, "min")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("group-" + name)}
	if rapid.Bool().Draw(h.t, "x-k8s.io") {
		g := &xscheduling.PodGroup{ObjectMeta: meta}
		g.Spec.MinMember = minimum
		h.drawTerms(g)
		h.drawComposite(g)
		return &eventlog.Upserted{Resource: eventlog.XPodGroups, Object: g}
	}
	g := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	h.drawTerms(g)
	h.drawComposite(g)
	return &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g}
}

func (h *history) withdrawGroup() {
	if len(h.groups) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(h.groups), func(a, b groupKey) int { return a.compare(b) })
	key := rapid.SampledFrom(keys).Draw(h.t, "declaration")
	h.step(&eventlog.Deleted{Resource: key.resource, Namespace: namespace, Name: key.name})
}

// createGang makes members, alike or not, and often their PodGroup, before them or after.
func (h *history) createGang() {
	name := fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(h.t, "group"))
	var inputs []eventlog.Payload
	alike := h.chance(70, "alike")
	template := h.newPod("", name)
	for range rapid.IntRange(1, 5).Draw(h.t, "members") {
		p := template.DeepCopy()
		if !alike {
			p = h.newPod("", name)
		}
		if h.chance(10, "too large") {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceCPU: *resource.NewQuantity(9, resource.DecimalSI),
			}
		}
		h.nameIt(p, fmt.Sprintf("%s-%d", name, rapid.IntRange(0, 7).Draw(h.t, "index")))
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
	if h.chance(80, "declared") {
		at := rapid.IntRange(0, len(inputs)).Draw(h.t, "at")
		inputs = slices.Insert(inputs, at, h.groupEntry(name))
	}
	h.step(inputs...)
}

// pod actions

func (h *history) createPod() {
	h.step(
		&eventlog.Upserted{
			Resource: eventlog.Pods,
			Object:   h.newPod(fmt.Sprintf("p%d", rapid.IntRange(0, 5).Draw(h.t, "pod")), ""),
		},
	)
}

func (h *history) nameIt(p *v1.Pod, name string) { p.Name, p.UID = name, h.uid(name) }

func (h *history) newPod(name, group string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	h.nameIt(p, name)
	p.Spec.SchedulerName = rapid.SampledFrom(h.shape.schedulers).Draw(h.t, "scheduler")
	requests := v1.ResourceList{}
	if cpu := rapid.Int64Range(0, 4).Draw(h.t, "cpu"); cpu > 0 {
		requests[v1.ResourceCPU] = *resource.NewQuantity(cpu, resource.DecimalSI)
	}
	if h.chance(25, "wants gpu") {
		requests[gpu] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests}}}
	if priority := rapid.Int32Range(0, 2).Draw(h.t, "priority"); priority > 0 {
		p.Spec.Priority = &priority
	}
	if h.chance(6, "never preempts") {
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	if h.chance(10, "gated") {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
	}
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	if h.shape.durations && h.chance(75, "declares a duration") {
		p.Annotations["rollcall.dev/duration"] = rapid.SampledFrom(
			[]string{"1s", "3s", "10s", "1m", "1h"},
		).Draw(
			h.t,
			"duration",
		)
	}
	if h.shape.approval {
		p.Labels["approval"] = rapid.SampledFrom(
			[]string{"", "", "", "wanted", "wanted", "given", "given", "broken"},
		).Draw(
			h.t,
			"approval",
		)
	}
	if h.shape.topology && h.chance(20, "wants a port") { // the judges of domains ignore ports
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	if group != "" {
		h.enlist(p, group)
	}
	return p
}

// change draws a present pod and lets edit change a copy of it.
func (h *history) change(edit func(p *v1.Pod) bool) {
	name, ok := pick(h, h.names, "pod")
	if !ok {
		return
	}
	p := h.pods[h.names[name]].object.DeepCopy()
	if edit(p) {
		h.step(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
}

func (h *history) ungatePod() {
	h.change(func(p *v1.Pod) bool {
		gated := len(p.Spec.SchedulingGates) > 0
		p.Spec.SchedulingGates = nil
		return gated
	})
}

func (h *history) terminatePod() {
	h.change(func(p *v1.Pod) bool {
		alive := p.DeletionTimestamp == nil
		p.DeletionTimestamp = &metav1.Time{Time: h.now.Std().Truncate(time.Second)}
		return alive
	})
}

func (h *history) finishPod() {
	h.change(func(p *v1.Pod) bool {
		p.Status.Phase = rapid.SampledFrom([]v1.PodPhase{v1.PodSucceeded, v1.PodFailed}).Draw(h.t, "phase")
		return p.Spec.NodeName != ""
	})
}

// relabelPod changes the label that names a pod's group, which pods may do and which is not followed.
func (h *history) relabelPod() {
	h.change(func(p *v1.Pod) bool {
		p.Labels = map[string]string{
			xscheduling.PodGroupLabel: fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(h.t, "group")),
		}
		if h.chance(30, "none") {
			p.Labels = nil
		}
		return true
	})
}

// resizePod changes what a pod requests, as in-place resize does.
func (h *history) resizePod() {
	h.change(func(p *v1.Pod) bool {
		requests := v1.ResourceList{
			v1.ResourceCPU: *resource.NewQuantity(rapid.Int64Range(1, 2).Draw(h.t, "cpu"), resource.DecimalSI),
		}
		maps.Copy(requests, p.Spec.Containers[0].Resources.Requests)
		p.Spec.Containers[0].Resources.Requests = requests
		return h.shape.foreign || p.Spec.NodeName == ""
	})
}

// bindOutside has somebody else bind a pod, also one that is held or being bound to another node.
func (h *history) bindOutside() {
	h.change(func(p *v1.Pod) bool {
		if p.Spec.NodeName != "" {
			return false
		}
		p.Spec.NodeName = fmt.Sprintf("n%d", rapid.IntRange(0, 4).Draw(h.t, "node"))
		p.Spec.SchedulingGates = nil
		return true
	})
}

func (h *history) deletePod() {
	if name, ok := pick(h, h.names, "pod"); ok {
		h.step(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: name, UID: h.names[name]})
	}
}

// bindComesBack reports what became of some binds, in any order; Unknown is not the last word.
func (h *history) bindComesBack() {
	var inputs []eventlog.Payload
	for range rapid.IntRange(1, 4).Draw(h.t, "results") {
		if len(h.inflight) == 0 {
			break
		}
		i := rapid.IntRange(0, len(h.inflight)-1).Draw(h.t, "bind")
		x := h.inflight[i]
		outcome := rapid.SampledFrom([]eventlog.BindOutcome{eventlog.BindBound, eventlog.BindBound, eventlog.BindBound,
			eventlog.BindFailed, eventlog.BindConflict, eventlog.BindUnknown}).Draw(h.t, "outcome")
		if outcome != eventlog.BindUnknown {
			h.inflight = slices.Delete(h.inflight, i, i+1)
		}
		inputs = append(inputs, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: outcome})
	}
	h.step(inputs...)
}

// confirmBinds brings all results that are still out, in the order of the decisions.
func (h *history) confirmBinds() {
	var inputs []eventlog.Payload
	for _, x := range h.inflight {
		inputs = append(inputs, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
	}
	h.inflight = nil
	for _, uid := range slices.Sorted(maps.Keys(h.evicting)) {
		inputs = append(inputs, h.deletionOf(uid))
	}
	h.step(inputs...)
}

func (h *history) timePasses() {
	by := rapid.SampledFrom(
		[]time.Duration{time.Millisecond, time.Second, 3 * time.Second, 11 * time.Second, time.Minute, 6 * time.Minute},
	).Draw(
		h.t,
		"by",
	)
	h.now = h.now.Add(by)
	h.step(&eventlog.Tick{})
}
