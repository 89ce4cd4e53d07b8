package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
)

// evictionRetry is the time after which kubectl drain tries an eviction again that a budget has forbidden.
const evictionRetry = 5 * time.Second

// drains are the drains of nodes, and the budgets that they ask.
type drains struct {
	budgets budgets
	// nodes are the nodes whose drain has begun, in this order.
	nodes []*liveNode
}

func newDrains() drains { return drains{budgets: budgets{all: map[types.NamespacedName]*budget{}}} }

// A drain evicts the pods that a node has at its beginning, as kubectl drain does.
type drain struct {
	began time.Duration
	// left are the pods that it has not evicted, in the order of their plans.
	left []keptPod
	// counts are the budgets of these pods, with their last counts.
	counts map[*budget]*headcount
	// planned says that its next attempt is in the queue.
	planned bool
}

// keptPod is a pod that a drain could not evict, and why.
type keptPod struct {
	index int32
	uid   types.UID
	why   string
}

// begin begins the drain of a node. Pods of DaemonSets, and pods that the kubelet made itself, stay.
func (d *drains) begin(c *Cluster, live *liveNode) {
	live.drain = &drain{began: c.now}
	for _, i := range slices.Sorted(maps.Keys(live.pods)) {
		template := c.pods[i].template
		owner := metav1.GetControllerOfNoCopy(template)
		static := metav1.HasAnnotation(template.ObjectMeta, corev1.MirrorPodAnnotationKey)
		if !static && (owner == nil || owner.Kind != "DaemonSet") {
			live.drain.left = append(live.drain.left, keptPod{index: i, uid: c.pods[i].uid})
		}
	}
	d.nodes = append(d.nodes, live)
}

// attempt begins the drain of the node of a plan, or tries again to evict the pods that budgets have kept.
func (d *drains) attempt(c *Cluster, plan int32) (inputs []eventlog.Payload) {
	live := c.nodes.exists(plan)
	if live == nil {
		return nil
	}
	if live.drain == nil {
		d.begin(c, live)
	}
	this := live.drain
	this.planned, this.counts = false, map[*budget]*headcount{}
	this.left = slices.DeleteFunc(this.left, func(pod keptPod) bool { return !pod.isOn(c, live) })
	var evicted []int32
	for k := range this.left {
		pod := &this.left[k]
		if pod.why = d.budgets.mayEvict(c, pod.index, this.counts); pod.why == "" {
			evicted = append(evicted, pod.index)
		}
	}
	this.left = slices.DeleteFunc(this.left, func(pod keptPod) bool { return pod.why == "" })
	for _, pod := range evicted {
		inputs = append(inputs, c.endPod(pod, ending{how: report.Lost, reason: byDrain})...)
	}
	return inputs
}

// isOn reports whether the pod is still on the node. A pod that replaces it is another one.
func (p *keptPod) isOn(c *Cluster, live *liveNode) bool {
	state := &c.pods[p.index]
	return state.node == live && state.uid == p.uid
}

// remember keeps a budget that came or changed.
func (d *drains) remember(c *Cluster, o eventlog.Object) {
	if o, is := o.(*policyv1.PodDisruptionBudget); is {
		d.budgets.remember(o)
		d.retry(c, nil)
	}
}

// forget drops a budget that was deleted.
func (d *drains) forget(c *Cluster, resource eventlog.Resource, key types.NamespacedName) {
	if resource == eventlog.PodDisruptionBudgets {
		delete(d.budgets.all, key)
		d.retry(c, nil)
	}
}

// podChanges plans the retries that a pod may allow which came to a node or has gone.
func (d *drains) podChanges(c *Cluster, i int32) {
	d.retry(c, func(b *budget) bool { return b.covers(c.work.Pods[i].Namespace, c.pods[i].template) })
}

// retry plans another attempt of each drain whose pods a changed budget has kept. nil means that any may have changed.
// Attempts without a change would end as the last one did.
func (d *drains) retry(c *Cluster, changed func(*budget) bool) {
	for _, live := range d.nodes {
		this := live.drain
		if this.planned || len(this.left) == 0 || changed != nil && !this.asked(changed) {
			continue
		}
		this.planned = true
		at := this.began + ((c.now-this.began)/evictionRetry+1)*evictionRetry
		c.queue.add(event{at: at, kind: nodeDrains, index: live.plan})
	}
}

// asked reports whether the last attempt asked a budget that matches.
func (d *drain) asked(matches func(*budget) bool) bool {
	for b := range d.counts { // any order: one is enough
		if matches(b) {
			return true
		}
	}
	return false
}

// held returns the drains that did not come to their end, in the order of their beginning.
func (d *drains) held(c *Cluster) (held []report.HeldDrain) {
	for _, live := range d.nodes {
		if c.nodes.exists(live.plan) != live {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(live.drain.left), func(p keptPod) bool { return !p.isOn(c, live) })
		if len(kept) > 0 {
			held = append(held, report.HeldDrain{Node: live.object.Name, Pods: len(kept),
				First: c.name(kept[0].index).String(), Why: kept[0].why})
		}
	}
	return held
}
