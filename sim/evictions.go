package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// The reasons of the condition DisruptionTarget of pods that are evicted from their nodes.
const (
	byTaint = "DeletionByTaintManager"
	byDrain = "EvictionByEvictionAPI"
)

// taintEviction is the coming eviction of a pod that does not tolerate a taint of its node.
type taintEviction struct {
	// since is the time from which the seconds of its toleration count.
	since, at time.Duration
}

// leavingPod is a pod that was deleted while the kubelet of its node did not answer.
type leavingPod struct {
	name     types.NamespacedName
	uid      types.UID
	template *corev1.Pod
	// claims is the pod with the names of its claims, nil if it has no claims.
	claims *corev1.Pod
}

// planEvictions plans the evictions of a node's pods by its present taints, as the taint eviction controller does.
func (c *Cluster) planEvictions(live *liveNode) {
	taints := noExecute(live.object)
	if len(taints) == 0 {
		live.evictions = nil
		return
	}
	for _, i := range slices.Sorted(maps.Keys(live.pods)) {
		live.planEviction(i, c.pods[i].template, taints, c.now, &c.queue)
	}
}

// planEviction plans the eviction of a pod by the taints of the node. If the pod tolerates them for a time, and its
// eviction is planned already, that plan stays.
func (n *liveNode) planEviction(i int32, pod *corev1.Pod, taints []corev1.Taint, now time.Duration, queue *schedule) {
	if len(taints) == 0 {
		return
	}
	wait, forever := tolerated(taints, pod.Spec.Tolerations)
	if forever {
		delete(n.evictions, i)
		return
	}
	if before, planned := n.evictions[i]; planned && before.since < now && wait > 0 {
		return
	}
	if n.evictions == nil {
		n.evictions = map[int32]taintEviction{}
	}
	e := taintEviction{since: now, at: now + wait}
	n.evictions[i] = e
	queue.add(event{at: e.at, kind: podTainted, index: i})
}

// noExecute returns the taints of a node that evict pods.
func noExecute(node *corev1.Node) (taints []corev1.Taint) {
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, t)
		}
	}
	return taints
}

// tolerated returns for how long a pod tolerates taints: the shortest time of the tolerations that match them.
func tolerated(taints []corev1.Taint, tolerations []corev1.Toleration) (d time.Duration, forever bool) {
	all, used := v1helper.GetMatchingTolerations(klog.Logger{}, taints, tolerations)
	if !all {
		return 0, false
	}
	forever = true
	for _, t := range used {
		if t.TolerationSeconds == nil {
			continue
		}
		seconds := min(max(0, *t.TolerationSeconds), int64(workload.MaxOffset/time.Second))
		if limit := time.Duration(seconds) * time.Second; forever || limit < d {
			d, forever = limit, false
		}
	}
	return d, forever
}

// evicts reports whether the taints of the node evict a pod at a time.
func (n *liveNode) evicts(i int32, at time.Duration) bool {
	e, planned := n.evictions[i]
	return planned && e.at == at
}

// deleted makes the object of a pod on a node after its deletion at a time, for a reason ("" for none).
func (p *leavingPod) deleted(pod *corev1.Pod, node *liveNode, at time.Duration, reason string) *corev1.Pod {
	if p.claims != nil {
		pod.Status.ResourceClaimStatuses = p.claims.Status.ResourceClaimStatuses
	}
	now := metav1.NewTime(workload.Start.Add(at))
	pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp = node.object.Name, corev1.PodRunning, &now
	if reason != "" {
		pod.Status.Conditions = append(slices.Clone(pod.Status.Conditions), corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
	return pod
}

// endLeaving ends the pods of a node that were deleted while its kubelet did not answer.
func (c *Cluster) endLeaving(live *liveNode) (inputs []eventlog.Payload) {
	for _, p := range live.leaving {
		inputs = append(inputs, p.removed(&c.store, &c.devices)...)
		delete(c.nodes.leaving, p.uid)
		c.leaveName(p.name)
	}
	live.leaving = nil
	return inputs
}

// removed returns the inputs for a pod that no longer exists, and for the claims that were made for it.
func (p *leavingPod) removed(store *storage, devices *claimController) []eventlog.Payload {
	inputs := []eventlog.Payload{
		&eventlog.Deleted{Resource: eventlog.Pods, Namespace: p.name.Namespace, Name: p.name.Name, UID: p.uid}}
	inputs = append(inputs, store.dropEphemeral(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.name.Namespace, Name: p.name.Name, UID: p.uid},
		Spec:       p.template.Spec})...)
	if p.claims != nil {
		inputs = append(inputs, devices.release(p.claims, true)...)
	}
	return inputs
}
