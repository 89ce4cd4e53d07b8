package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// nodeJoins lets a node join.
func (c *Cluster) nodeJoins(i int32) []eventlog.Payload {
	node := c.identifiedNode(i, c.plans[i].Node)
	c.nodes[node.Name] = &liveNode{plan: i, object: node, pods: map[int32]struct{}{}}
	c.account.NodeJoined(node)
	return []eventlog.Payload{upserted(eventlog.Nodes, node)}
}

// identifiedNode returns the node with UID and creation time.
func (c *Cluster) identifiedNode(i int32, planned *corev1.Node) *corev1.Node {
	node := *planned
	if node.UID == "" {
		node.UID = c.nodeUIDs[i]
	}
	if node.CreationTimestamp.IsZero() {
		node.CreationTimestamp = metav1.NewTime(workload.Start.Add(c.plans[i].Joins))
	}
	return &node
}

// changeNode carries out a planned change of a node.
func (c *Cluster) changeNode(i, k int32) []eventlog.Payload {
	live := c.nodes[c.plans[i].Node.Name]
	if live == nil || live.plan != i {
		return nil
	}
	change := c.nodeChanges[i][k]
	var node *corev1.Node
	if change.object != nil {
		node = c.identifiedNode(i, change.object)
	} else {
		changed := *live.object
		changed.Spec.Unschedulable = change.cordon
		node = &changed
	}
	c.account.Offer(live.object, -1)
	c.account.Offer(node, +1)
	live.object = node
	return []eventlog.Payload{upserted(eventlog.Nodes, node)}
}

// nodeFails takes a node and its pods away.
func (c *Cluster) nodeFails(i int32) []eventlog.Payload {
	live := c.nodes[c.plans[i].Node.Name]
	delete(c.nodes, live.object.Name)
	c.account.Offer(live.object, -1)
	inputs := []eventlog.Payload{
		&eventlog.Deleted{Resource: eventlog.Nodes, Name: live.object.Name, UID: live.object.UID}}
	for _, pod := range slices.Sorted(maps.Keys(live.pods)) {
		inputs = append(inputs, c.endPod(pod, report.Failed)...)
	}
	return inputs
}

// objectChanges carries out the arrival, change or deletion of an object.
func (c *Cluster) objectChanges(plan workload.ObjectPlan) []eventlog.Payload {
	key := types.NamespacedName{Namespace: plan.Object.GetNamespace(), Name: plan.Object.GetName()}
	uid := plan.Object.GetUID()
	if uid == "" {
		uid = workload.UID(plan.Resource, key.Namespace, key.Name)
	}
	if plan.Delete {
		if g, ok := c.groupIndex[key]; ok {
			c.groups[g].withdraw(plan.Resource)
		}
		c.store.forget(plan.Resource, key.Namespace, key.Name)
		return []eventlog.Payload{
			&eventlog.Deleted{Resource: plan.Resource, Namespace: key.Namespace, Name: key.Name, UID: uid}}
	}
	object := plan.Object
	if created := object.GetCreationTimestamp(); object.GetUID() == "" || created.IsZero() {
		object = object.DeepCopyObject().(eventlog.Object)
		object.SetUID(uid)
		if created.IsZero() {
			object.SetCreationTimestamp(metav1.NewTime(workload.Start.Add(c.now)))
		}
	}
	if plan.Resource == eventlog.PodGroups || plan.Resource == eventlog.XPodGroups {
		g := &c.groups[c.group(key)]
		minimum, _ := workload.GroupMinimum(object)
		g.declare(groupObject{plan.Resource, uid, minimum})
		c.checkGang(g)
	}
	c.store.remember(object)
	return []eventlog.Payload{upserted(plan.Resource, object)}
}

// podArrives creates a pod. A pod that names a node which is not there is lost before it arrives.
func (c *Cluster) podArrives(i int32) ([]eventlog.Payload, error) {
	plan, p := &c.work.Pods[i], &c.pods[i]
	nodeName := plan.Template.Spec.NodeName
	node := c.nodes[nodeName]
	uid := plan.EffectiveUID()
	if other, taken := c.live[uid]; taken {
		o := &c.work.Pods[other]
		return nil, fmt.Errorf("pod %s/%s arrives with the UID %s of pod %s/%s, which is there", plan.Namespace,
			plan.Name, uid, o.Namespace, o.Name)
	}
	c.account.Arrived()
	c.live[uid] = i
	p.phase, p.arrived, p.uid = pending, c.now, uid
	if p.group >= 0 {
		g := &c.groups[p.group]
		if g.arrived == 0 {
			g.Submitted = c.now
		}
		g.arrived++
		g.pending++
		g.asked = max(g.asked, cluster.MemberMinimum(plan.Template))
		c.checkGang(g)
	}
	if nodeName != "" && node == nil {
		// Its arrival and its end cancel out; whatever follows from its end does not.
		return c.endPod(i, report.Failed)[1:], nil
	}
	if node == nil {
		c.enqueue(p)
	}
	c.single(i, func(t *report.Times) { *t = report.Times{Submitted: c.now, CompleteAt: c.now, Complete: true} })
	if node != nil {
		c.start(i, node)
	}
	if plan.Deadline > 0 {
		c.queue.add(event{at: max(plan.Deadline, c.now), kind: podDeadline, index: i})
	}
	for k, u := range plan.Updates {
		if u.At >= c.now {
			c.queue.add(event{at: u.At, kind: podChanges, index: i, sub: int32(k)})
		}
	}
	return []eventlog.Payload{upserted(eventlog.Pods, plan.Build(p.template, p.uid, c.now))}, nil
}

// podChanges carries out a planned change of a pod.
func (c *Cluster) podChanges(i, k int32) []eventlog.Payload {
	plan, p := &c.work.Pods[i], &c.pods[i]
	p.template = plan.Updates[k].Pod
	return []eventlog.Payload{upserted(eventlog.Pods, plan.Build(p.template, p.uid, p.arrived))}
}

// start lets a pod run on a node.
func (c *Cluster) start(i int32, node *liveNode) {
	plan, p := &c.work.Pods[i], &c.pods[i]
	c.dequeue(i)
	p.phase, p.node, p.bound = running, node, c.now
	node.pods[i] = struct{}{}
	c.account.Started(p.template, c.now-p.arrived)
	if runs := plan.Runs(); runs > 0 {
		p.ends = c.now + runs
		c.queue.add(event{at: p.ends, kind: podEnds, index: i})
	}
	if p.group >= 0 {
		g := &c.groups[p.group]
		g.bound++
		g.pending--
		c.checkGang(g)
	} else if p.template.Spec.NodeName == "" {
		c.account.JobPlaced(c.now - p.arrived)
	}
	c.single(i, func(t *report.Times) { t.Placed, t.PlacedAt = true, c.now })
}

// checkGang notes when a gang has its members and when they are placed.
func (c *Cluster) checkGang(g *groupState) {
	minimum, gang := g.minimum()
	if minimum == 0 {
		return
	}
	if gang && !g.counted {
		g.counted = true
		c.account.GangCame()
		if g.Placed {
			c.account.GangPlaced(g.PlacedAt - g.CompleteAt)
		}
	}
	if !g.Complete && g.arrived >= minimum {
		g.Complete, g.CompleteAt = true, c.now
	}
	if g.Complete && !g.Placed && g.bound >= minimum {
		g.Placed, g.PlacedAt = true, c.now
		c.account.JobPlaced(c.now - g.CompleteAt)
		if g.counted {
			c.account.GangPlaced(c.now - g.CompleteAt)
		}
	}
	c.checkWaiting(g)
}

// checkWaiting counts the gangs that have members which wait for their minimum to be placed.
func (c *Cluster) checkWaiting(g *groupState) {
	waits := g.counted && !g.Placed && g.pending > 0
	if waits == g.waits {
		return
	}
	g.waits = waits
	if waits {
		c.account.GangWaits(+1)
	} else {
		c.account.GangWaits(-1)
	}
}

// endPod takes a pod away. The inputs begin with what tells of its own end; the deletion of its group follows if it was
// the last member.
func (c *Cluster) endPod(i int32, how report.Ending) []eventlog.Payload {
	plan, p := &c.work.Pods[i], &c.pods[i]
	c.dequeue(i)
	ran := p.phase == running
	if ran {
		delete(p.node.pods, i)
		c.account.Stopped(p.template)
	} else if how == report.Completed || how == report.Withdrawn && p.phase == planned {
		panic(fmt.Sprintf("pod %s/%s ends in phase %d", plan.Namespace, plan.Name, p.phase))
	} else {
		c.account.Left()
	}
	c.account.Ended(how)
	if p.group < 0 && ran && p.template.Spec.NodeName == "" {
		c.account.JobFinished(p.bound-p.arrived, c.now-p.bound)
	}
	c.single(i, func(t *report.Times) { t.Finished, t.FinishedAt = true, c.now })
	uid, on := p.uid, p.node
	delete(c.live, uid)
	p.phase, p.node, p.uid = gone, nil, ""
	if plan.Batch != nil {
		c.startNext(plan.Batch)
	}
	var inputs []eventlog.Payload
	if how == report.Completed && p.group >= 0 {
		// Whether a gang misses a member that goes depends on how it ended.
		pod := plan.Build(p.template, uid, p.arrived)
		pod.Spec.NodeName, pod.Status.Phase = on.object.Name, corev1.PodSucceeded
		inputs = append(inputs, upserted(eventlog.Pods, pod))
	}
	inputs = append(inputs,
		&eventlog.Deleted{Resource: eventlog.Pods, Namespace: plan.Namespace, Name: plan.Name, UID: uid})
	return append(inputs, c.leaveGroup(p, ran)...)
}

// leaveGroup counts a member off that ran or did not, and deletes its group if it was the last one.
func (c *Cluster) leaveGroup(p *podState, ran bool) []eventlog.Payload {
	if p.group < 0 {
		return nil
	}
	g := &c.groups[p.group]
	if !ran {
		g.pending--
		c.checkWaiting(g)
	}
	g.left--
	if g.left > 0 {
		return nil
	}
	c.finishGroup(g)
	var gone []eventlog.Payload
	for _, o := range g.objects {
		gone = append(gone,
			&eventlog.Deleted{Resource: o.resource, Namespace: g.name.Namespace, Name: g.name.Name, UID: o.uid})
	}
	g.objects = nil
	return gone
}

// declare takes in an object that declares the group, or its change.
func (g *groupState) declare(o groupObject) {
	g.withdraw(o.resource)
	g.objects = append(g.objects, o)
	slices.SortFunc(g.objects,
		func(a, b groupObject) int { return strings.Compare(string(a.resource), string(b.resource)) })
}

// withdraw takes one away.
func (g *groupState) withdraw(resource eventlog.Resource) {
	g.objects = slices.DeleteFunc(g.objects, func(o groupObject) bool { return o.resource == resource })
}

// startNext lets the next pod of a batch arrive, now. One whose deadline is over never does.
func (c *Cluster) startNext(b *workload.Batch) {
	batch := c.batches[b]
	for len(batch.waiting) > 0 {
		i := batch.waiting[0]
		batch.waiting = batch.waiting[1:]
		if d := c.work.Pods[i].Deadline; d == 0 || d > c.now {
			c.queue.add(event{at: c.now, kind: podArrives, index: i})
			return
		}
		c.pods[i].phase = gone
		if g := c.pods[i].group; g >= 0 {
			c.groups[g].left--
		}
	}
}
