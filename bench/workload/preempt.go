package workload

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// With Preempt, pods of lower priority, the runners, have every GPU before the first pod comes. Half of them are pods
// without a gang. The others are in gangs, each on as many nodes as it has members, and every other one of these gangs
// must be evicted as a whole or not at all (disruptionMode all). Their sizes divide the sizes of the gangs that come,
// so that none of these finds room left over by an earlier one: each has to evict.

// preemptorPriority is the priority of the pods of a workload with Preempt, and of their gangs.
const preemptorPriority = 1000

// runnerPriorities is the number of priorities of runners, in steps of 100 from 0 on.
const runnerPriorities = 3

// largestRunnerGang is the most members that a gang of runners has. It is also the number of GPUs of each node that
// gangs have.
const largestRunnerGang = NodeGPUs / 2

// checkPreempt says what is wrong with a workload that preempts.
func (s Spec) checkPreempt() error {
	switch {
	case !s.Preempt:
		return nil
	case s.Gang < 1 || s.GangMost > 0 || s.Pods%s.Gang != 0:
		return fmt.Errorf("%d pods in gangs of %s that preempt: want gangs of one size, all of them whole", s.Pods,
			s.GangFlag())
	case s.Spread || s.DRA || s.usesApps():
		return errors.New("pods that preempt are not spread, look at no apps, and have no devices")
	case s.Pods > s.Room():
		return fmt.Errorf("%d pods that preempt: all %d nodes together take %d, and none of them ends", s.Pods, s.Nodes,
			s.Room())
	}
	return nil
}

// runnerGang is the number of members of a gang of runners: the largest that divides the size of the gangs that come.
func (s Spec) runnerGang() int {
	size := largestRunnerGang
	for s.Gang%size != 0 {
		size /= 2
	}
	return size
}

// Runners is the number of pods that run from the beginning: with Preempt one for each GPU.
func (s Spec) Runners() int {
	if !s.Preempt {
		return 0
	}
	return s.Nodes * NodeGPUs
}

// RunnerNode returns the number of the node of the i-th runner.
func (s Spec) RunnerNode(i int) int { return i / NodeGPUs }

// runnerGroupOf returns the number of the gang of the i-th runner; ok is false if it has none. A gang with n members
// takes the k-th GPU of n consecutive nodes, for some k in the second half of a node.
func (s Spec) runnerGroupOf(i int) (g int, ok bool) {
	node, k, size := i/NodeGPUs, i%NodeGPUs-largestRunnerGang, s.runnerGang()
	if k < 0 || node/size >= s.Nodes/size {
		return 0, false
	}
	return node/size*largestRunnerGang + k, true
}

// RunnerGroups is the number of gangs of runners.
func (s Spec) RunnerGroups() int {
	if !s.Preempt {
		return 0
	}
	return s.Nodes / s.runnerGang() * largestRunnerGang
}

func runnerGroupName(g int) string { return fmt.Sprintf("runners-%06d", g) }

// runnerPriority returns the priority of a runner, or of a gang of runners, by its number.
func runnerPriority(number int) *int32 { return ptr.To(int32(number * 7919 % runnerPriorities * 100)) }

// RunnerGroup makes the PodGroup of the g-th gang of runners.
func (s Spec) RunnerGroup(g int) *schedulingv1beta1.PodGroup {
	mode := &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	if g%2 != 0 {
		mode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: runnerGroupName(g), UID: uid(kindRunnerGroup, g), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began.Add(-time.Hour)),
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(s.runnerGang())}},
			DisruptionMode: mode,
			Priority:       runnerPriority(g),
		},
	}
}

// Runner makes the i-th runner.
func (s Spec) Runner(i int) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(2000+i*1237%8*1000), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(32<<30, resource.BinarySI),
		gpu:                   *resource.NewQuantity(1, resource.DecimalSI),
	}
	started := metav1.NewTime(began.Add(-time.Duration(1+i*7919%100_003) * time.Second))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("runner-%08d", i), UID: uid(kindRunner, i), ResourceVersion: "1",
			Labels:            map[string]string{"app": "bench"},
			CreationTimestamp: started,
		},
		Spec: corev1.PodSpec{
			NodeName:      NodeName(s.RunnerNode(i)),
			SchedulerName: corev1.DefaultSchedulerName,
			Priority:      runnerPriority(i / 5),
			Containers: []corev1.Container{{Name: "main", Image: "bench", Resources: corev1.ResourceRequirements{
				Requests: requests, Limits: corev1.ResourceList{gpu: requests[gpu]},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started},
	}
	if g, ok := s.runnerGroupOf(i); ok {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(runnerGroupName(g))}
		pod.Spec.Priority = runnerPriority(g)
	}
	return pod
}

// RunnerIndex returns the number of the runner with that UID; ok is false for other pods.
func RunnerIndex(pod types.UID) (i int, ok bool) {
	i, err := Index(pod)
	return i, err == nil && pod == uid(kindRunner, i)
}
