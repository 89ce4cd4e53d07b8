// Package workload makes the nodes and pods that schedulers are measured with: the same ones, bit for bit, for every
// scheduler and every run.
//
// It owns the contents of the objects. It never schedules, keeps none of the objects (100,000 pods would be most of a
// measured process's memory), and knows no clock.
//
// Start reading at Spec.
package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The resources of a node, and the number of zones that the nodes are spread over in turn.
const (
	NodeCPU    = 96
	NodeMemory = 768 << 30 // bytes
	NodeGPUs   = 8
	nodePods   = 110
	Zones      = 3
)

// Bounds of a Spec.
const (
	MaxNodes = 100_000
	MaxPods  = 10_000_000
)

// gpu is the resource of which every pod requests one.
const gpu corev1.ResourceName = "nvidia.com/gpu"

// namespace has all pods.
const namespace = "bench"

// Spec describes a workload.
type Spec struct {
	// Nodes and Pods count them: 1 to MaxNodes and MaxPods.
	Nodes, Pods int
	// Gang is the number of pods of a gang, and the minimum in its PodGroup of scheduling.k8s.io; the last gang has
	// the pods that are left. 0: there are no gangs.
	Gang int
	// GangMost makes gangs differ in size, from Gang pods to GangMost; see gangCycle. 0: all have Gang.
	GangMost int
	// Shapes is the number of different requests for CPU and memory, from 1. Pods of one gang have the same, unless
	// there are as many shapes as pods. At most a million are different.
	Shapes int
	// Spread asks every pod to be spread over the zones: maxSkew 1, DoNotSchedule.
	Spread bool
	// Affinity asks every pod to avoid nodes with another pod of its app, and to prefer zones with some (weight 10).
	Affinity bool
	// SoftSpread asks every pod to spread over zones and nodes with the pods of its app: maxSkew 1, ScheduleAnyway.
	SoftSpread bool
	// ZoneAffinity asks every pod, except for the first app's, to be in a zone with a pod of the first app.
	ZoneAffinity bool
	// NamespaceAffinity asks the same, and the apps are in several namespaces, which the pods select by a label.
	NamespaceAffinity bool
	// Apps is the number of apps with one of these four terms; 0 means DefaultApps. Pod i is of app i modulo Apps.
	Apps int
	// DRA makes the GPUs devices: every node has a ResourceSlice of NodeGPUs devices. Every pod has a ResourceClaim
	// for one of them, from a template, instead of a request for an extended resource.
	DRA bool
	// Preempt gives all GPUs to pods of lower priority from the beginning, see Runner: each gang has to evict some.
	// All pods come at once, and an evicted pod does not come back.
	Preempt bool
}

// Check says what is wrong with a Spec.
func (s Spec) Check() error {
	switch {
	case s.Nodes < 1 || s.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: want 1 to %d", s.Nodes, MaxNodes)
	case s.Pods < 1 || s.Pods > MaxPods:
		return fmt.Errorf("%d pods: want 1 to %d", s.Pods, MaxPods)
	case s.Shapes < 1 || s.Shapes > MaxPods:
		return fmt.Errorf("%d shapes: want 1 to %d", s.Shapes, MaxPods)
	case s.Spread && s.Nodes < Zones:
		return fmt.Errorf("%d nodes are too few to spread pods over %d zones", s.Nodes, Zones)
	case s.Gang < 0:
		return fmt.Errorf("gangs of %d: want 1 or more, or 0 for no gangs", s.Gang)
	case s.GangMost != 0 && (s.Gang < 1 || s.GangMost < s.Gang):
		return fmt.Errorf("gangs of %d to %d: want 1 or more, and no fewer than that", s.Gang, s.GangMost)
	case max(s.Gang, s.GangMost) > s.Room():
		return fmt.Errorf("gangs of %d: all %d nodes together take %d pods", max(s.Gang, s.GangMost), s.Nodes, s.Room())
	}
	return errors.Join(s.checkTerms(), s.checkPreempt())
}

// Room is the number of pods that fit all nodes: one for each GPU. Spread pods fill every zone only as far as the
// smallest one.
func (s Spec) Room() int {
	if s.Spread {
		return s.Nodes / Zones * Zones * NodeGPUs
	}
	return s.Nodes * NodeGPUs
}

// String describes the workload in a few words.
func (s Spec) String() string {
	parts := []string{fmt.Sprintf("%d nodes", s.Nodes), fmt.Sprintf("%d pods", s.Pods)}
	switch {
	case s.Shapes == 1:
		parts = append(parts, "1 shape")
	case s.Shapes >= s.Pods:
		parts = append(parts, "every pod its own shape")
	default:
		parts = append(parts, fmt.Sprintf("%d shapes", s.Shapes))
	}
	switch {
	case s.GangMost > 0:
		parts = append(parts, fmt.Sprintf("gangs of %d to %d", s.Gang, s.GangMost))
	case s.Gang > 0:
		parts = append(parts, fmt.Sprintf("gangs of %d", s.Gang))
	}
	if s.Spread {
		parts = append(parts, "spread over zones")
	}
	if s.DRA {
		parts = append(parts, "a device each")
	}
	if s.Preempt {
		parts = append(parts, "all nodes full with pods of lower priority")
	}
	return strings.Join(append(parts, s.termsText()...), ", ")
}

// termsText describes the terms about other pods in a few words.
func (s Spec) termsText() (parts []string) {
	for _, p := range []struct {
		is   bool
		text string
	}{
		{s.Affinity, "apart by node and together by zone"},
		{s.SoftSpread, "softly spread over zones and nodes"},
		{s.ZoneAffinity, "in a zone with another app"},
		{s.NamespaceAffinity, "in a zone with another app of other namespaces"},
		{s.usesApps(), fmt.Sprintf("%d apps", s.apps())},
	} {
		if p.is {
			parts = append(parts, p.text)
		}
	}
	return parts
}

// began is the time at which the first pod was made.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// uid makes a UID in which index finds the number.
func uid(kind, i int) types.UID { return types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, i)) }

const (
	kindNode = iota + 1
	kindPod
	kindGroup
	kindSlice
	kindClass
	kindClaim
	kindNamespace
	kindRunner
	kindVisitor
	kindRunnerGroup
)

// Index returns the number of the pod with that UID.
func Index(uid types.UID) (int, error) {
	if len(uid) != 36 {
		return 0, errors.New("the UID of no pod of this workload: " + string(uid))
	}
	return strconv.Atoi(string(uid[24:]))
}

// NodeName returns the name of the i-th node, from 0. Sorted by name they come in the order of their numbers.
func NodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

// NodeIndex returns the number of the node of that name.
func NodeIndex(name string) (int, error) {
	digits, ok := strings.CutPrefix(name, "node-")
	if !ok {
		return 0, fmt.Errorf("%q is no node of this workload", name)
	}
	return strconv.Atoi(digits)
}

// Node makes the i-th node.
func (s Spec) Node(i int) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(NodeCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(NodeMemory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(nodePods, resource.DecimalSI),
		gpu:                   *resource.NewQuantity(NodeGPUs, resource.DecimalSI),
	}
	if s.DRA {
		delete(room, gpu)
	}
	name := NodeName(i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid(kindNode, i), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(began),
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone(i)},
		},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// zone returns the zone of the i-th node.
func zone(i int) string { return fmt.Sprintf("zone-%d", i%Zones) }

// shape returns the request of a pod: milli CPUs, and bytes of memory.
func (s Spec) shape(pod int) (milliCPU, memory int64) {
	k := pod
	if s.Gang > 0 && s.Shapes < s.Pods {
		k, _, _ = s.gangAt(pod)
	}
	k %= s.Shapes
	// Eight of them fit a node, whichever they are. 1237 and 8000 have no common divisor, so no two shapes are the same
	// before the 1,024,000th.
	return int64(2000 + k*1237%8000), 16<<30 + int64(k%40960)<<20
}

// Pod makes the i-th pod, from 0. There is no end to them: pods from number Pods on have the same form, but no gang.
func (s Spec) Pod(i int) *corev1.Pod {
	milliCPU, memory := s.shape(i)
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		gpu:                   *resource.NewQuantity(1, resource.DecimalSI),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("pod-%08d", i), UID: uid(kindPod, i), ResourceVersion: "1",
			Labels:            map[string]string{"app": "bench"},
			CreationTimestamp: metav1.NewTime(began.Add(time.Duration(i) * time.Millisecond)),
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Priority:      ptr.To[int32](0),
			Containers: []corev1.Container{{Name: "main", Image: "bench", Resources: corev1.ResourceRequirements{
				Requests: requests, Limits: corev1.ResourceList{gpu: requests[gpu]},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if s.DRA {
		claimDevice(pod)
	}
	if g, ok := s.groupOf(i); ok {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(groupName(g))}
	}
	if s.Spread {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
		}}
	}
	if s.usesApps() {
		s.lookAtOthers(pod, i)
	}
	if s.Preempt {
		pod.Spec.Priority = ptr.To[int32](preemptorPriority)
	}
	return pod
}

func groupName(g int) string { return fmt.Sprintf("gang-%06d", g) }

// Group makes the PodGroup of the g-th gang.
func (s Spec) Group(g int) *schedulingv1beta1.PodGroup {
	first, end := s.Members(g)
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: groupName(g), UID: uid(kindGroup, g), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began.Add(time.Duration(first) * time.Millisecond)),
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(end - first)}},
		},
	}
	if s.Preempt {
		group.Spec.Priority = ptr.To[int32](preemptorPriority)
	}
	return group
}
