package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backlog describes a full cluster and gangs that wait: each node runs one pod that has all of its GPUs, and Waiting
// gangs want some nodes each. Then nodes and pods change all the time.
type Backlog struct {
	// Nodes counts them: 1 to MaxNodes.
	Nodes int
	// Waiting is the number of gangs that wait at any time: when one gets its nodes the next one comes.
	Waiting int
	// Hopeless is the number of further gangs that come first and can never fit: they ask for nodes of twice the size,
	// or for a zone that does not exist.
	Hopeless int
	// Unequal: the members of a gang request different amounts of CPU, of which there are three.
	Unequal bool
}

// A waiting gang has leastMembers members or more: there are memberSizes sizes.
const (
	leastMembers = 2
	memberSizes  = 15
)

// MaxWaiting bounds the number of gangs of a Backlog, the ones that can never fit included.
const MaxWaiting = 1_000_000

// Check says what is wrong with a Backlog.
func (b Backlog) Check() error {
	switch {
	case b.Nodes < leastMembers+memberSizes || b.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: want %d to %d", b.Nodes, leastMembers+memberSizes, MaxNodes)
	case b.Waiting < 0 || b.Hopeless < 0 || b.Waiting+b.Hopeless < 1 || b.Waiting+b.Hopeless > MaxWaiting:
		return fmt.Errorf("%d gangs that wait and %d that never fit: want 1 to %d together", b.Waiting, b.Hopeless,
			MaxWaiting)
	}
	return nil
}

// String describes the backlog in a few words.
func (b Backlog) String() string {
	text := fmt.Sprintf("%d nodes, all full, %d gangs that wait, %d that never fit", b.Nodes, b.Waiting, b.Hopeless)
	if b.Unequal {
		text += ", of unequal members"
	}
	return text
}

// Node makes the i-th node. A shrunk node has one CPU less than before.
func (b Backlog) Node(i int, shrunk bool) *corev1.Node {
	node := Spec{}.Node(i)
	if shrunk {
		node.Status.Allocatable = node.Status.Allocatable.DeepCopy()
		node.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(NodeCPU-1, resource.DecimalSI)
		node.ResourceVersion = "2"
	}
	return node
}

// Runner makes the pod that runs on the i-th node from the beginning. It declares when it will end.
func (b Backlog) Runner(i int) *corev1.Pod {
	pod := wholeNode(fmt.Sprintf("runner-%06d", i), uid(kindRunner, i), 0, NodeGPUs)
	pod.Spec.NodeName = NodeName(i)
	pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(600 + i*7919%36000))
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// Visitor makes the i-th of the small pods that come and go. They fit beside all others.
func (b Backlog) Visitor(i int) *corev1.Pod {
	pod := wholeNode(fmt.Sprintf("visitor-%06d", i), uid(kindVisitor, i), i, 0)
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(100, resource.DecimalSI)
	pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(60))
	return pod
}

// Members returns how many pods the g-th gang has.
func (b Backlog) Members(g int) int {
	return leastMembers + g*37%memberSizes
}

// never reports whether the g-th gang can never fit: the first ones do not.
func (b Backlog) never(g int) bool { return g < b.Hopeless }

// Group makes the PodGroup of the g-th gang.
func (b Backlog) Group(g int) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: groupName(g), UID: uid(kindGroup, g), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began.Add(time.Duration(g) * time.Millisecond)),
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(b.Members(g))}},
		},
	}
}

// maxMembers bounds the members of a gang whose pods have numbers of their own.
const maxMembers = MaxNodes + 1

// Pod makes the m-th member of the g-th gang. Every other gang declares how long it will run.
func (b Backlog) Pod(g, m int) *corev1.Pod {
	gpus := int64(NodeGPUs)
	if b.never(g) && g%2 != 0 {
		gpus *= 2
	}
	pod := wholeNode(fmt.Sprintf("%s-%06d", groupName(g), m), uid(kindPod, g*maxMembers+m), g, gpus)
	if b.Unequal {
		requests := pod.Spec.Containers[0].Resources.Requests
		cpu := requests[corev1.ResourceCPU]
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu.MilliValue()-int64(m%3*1000), resource.DecimalSI)
	}
	if b.never(g) && g%2 == 0 {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone(-1)}
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(groupName(g))}
	if g%2 != 0 {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(300))
	}
	return pod
}

// GangOf returns the number of the gang, and the number in it, of the pod with that UID; ok is false for a pod without
// a gang.
func (b Backlog) GangOf(pod types.UID) (g, m int, ok bool) {
	i, err := Index(pod)
	if err != nil || pod != uid(kindPod, i) {
		return 0, 0, false
	}
	return i / maxMembers, i % maxMembers, true
}

// wholeNode makes a pod with the given number of GPUs. Its number selects its shape, of which there are 16.
func wholeNode(name string, id types.UID, number int, gpus int64) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(16000+number*1237%16*1000), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(64<<30, resource.BinarySI),
	}
	if gpus > 0 {
		requests[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: id, ResourceVersion: "1", Labels: map[string]string{"app": "bench"},
			CreationTimestamp: metav1.NewTime(began.Add(time.Duration(number) * time.Millisecond)),
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Priority:      ptr.To[int32](0),
			Containers: []corev1.Container{{Name: "main", Image: "bench",
				Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}
