package scheduler

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
)

// Running pods whose resize is deferred (the feature gate InPlacePodVerticalScalingSchedulerPreemption).
//
// A pod may be resized in place: its object requests more, and the kubelet gives it more on its node. If the node has
// too little, the kubelet defers the resize, and gives the pod the condition PodResizePending with the reason Deferred.
// Such a pod is an entity of the queue by itself, also if it belongs to a gang. Its cycle looks at its own node alone.
// If the pod's requests fit there beside the other pods, it waits for the kubelet. If not, pods of lower priority on
// that node are preempted, if that makes enough room. In any case the cycle's outcome is Unschedulable (or Error) and
// the pod stays in the queue. It leaves when the kubelet removes the condition.
//
// Example: a node has 4 cpus, a pod of 1 cpu and one of 3 with a lower priority. The first one is resized to 2. The
// node counts 5 cpus as requested from then on, so that no other pod comes to it. The kubelet defers the resize, the
// pod of 3 cpus is evicted, and when it is gone the kubelet resizes the pod.

// awaitsResize reports whether the pod is to be attempted because its resize is deferred. Its profile has the plugin
// DeferredPodScheduling, which needs the feature gate.
func (n *entities) awaitsResize(p *cluster.Pod) bool {
	if p.Stage != cluster.Bound || p.Object.Spec.NodeName == "" {
		return false
	}
	prof := n.profiles.of(p.Object)
	return prof != nil && prof.Has(framework.Filter, names.DeferredPodScheduling) &&
		resource.IsPodResizeDeferred(p.Object) && p.MayBePlaced()
}

// resizeKey is the key of the entity that a pod on its node is by itself.
func resizeKey(p *cluster.Pod) queue.Key { return fwk.PodKey(p.Object.Namespace, p.Object.Name) }

// followResize puts a pod on its node into the queue, updates it there, or takes it out, depending on whether its
// resize is deferred. old is the object before, nil if there was none.
func (n *entities) followResize(p *cluster.Pod, old *v1.Pod) {
	if n.awaitsResize(p) {
		n.queue.Update(resizeKey(p), old, p.Object)
		return
	}
	if e := n.queue.Find(p.Object.UID); e != nil && e.Resize() {
		n.queue.Delete(e.Key(), p.Object.UID)
	}
}

// resizeFits is kube-scheduler's message of DeferredPodScheduling for a pod that only waits for the kubelet.
const resizeFits = "pod resize fits, waiting for Kubelet actuation"

// runResize is run for a pod whose resize is deferred. Nothing is reserved, and Permit is not asked: the pod keeps its
// node.
func (c *cycle) runResize() eventlog.Decision {
	c.d.Group = ""
	c.m.waits.pods.StartCycle()
	placement := c.profile.Refit(c.m.ctx, c.state, c.pod, c.trace)
	c.d.Evaluated, c.d.Feasible = placement.Evaluated, placement.Feasible
	c.d.Rejections = withBlamed(placement)
	c.d.Outcome = eventlog.Unschedulable
	switch {
	case placement.Status == nil:
		c.awaitKubelet()
	case !placement.Status.IsRejected():
		c.d.Outcome = eventlog.Error
	default:
		_, status := c.postFilter(placement)
		c.propose()
		c.d.Rejections = addRejection(c.d.Rejections, status)
	}
	c.m.waits.takeVerdicts(&c.d)
	return c.d
}

// awaitKubelet says that there is room for the resize. The row of NodeResourcesFit has no reason: it is there because
// that plugin knows which events may take the room again.
func (c *cycle) awaitKubelet() {
	code := fwk.UnschedulableAndUnresolvable.String()
	rows := []eventlog.Rejection{{Plugin: names.DeferredPodScheduling, Code: code, Reason: resizeFits}}
	if c.profile.Has(framework.Filter, names.NodeResourcesFit) {
		rows = append(rows, eventlog.Rejection{Plugin: names.NodeResourcesFit, Code: code})
	}
	c.d.Rejections = sortRejections(rows)
}

// applyResize applies the outcome of the cycle of a pod on its node.
func (m *Machine) applyResize(seq uint64, p *cluster.Pod, d *eventlog.Decision) error {
	if d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error {
		return fmt.Errorf("decision of cycle %d: pod %s/%s is on node %s already", d.Cycle, d.Namespace, d.Name, p.Node)
	}
	key := resizeKey(p)
	m.queue.StartAttempt(key)
	freed, err := m.applyRejected(key, d)
	if err != nil {
		return err
	}
	if err := m.applyVerdicts(seq, d); err != nil {
		return err
	}
	m.queue.Park(key, m.failureOf(d))
	m.nominated.apply(key, d)
	for _, pod := range freed {
		m.queue.Move(upstream.EventAssignedPodDelete, pod, nil)
	}
	return nil
}
