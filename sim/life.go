package sim

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// objectChanges carries out the arrival, change or deletion of an object.
func (c *Cluster) objectChanges(plan workload.ObjectPlan) ([]eventlog.Payload, error) {
	key := types.NamespacedName{Namespace: plan.Object.GetNamespace(), Name: plan.Object.GetName()}
	uid := plan.Object.GetUID()
	if uid == "" {
		uid = workload.UID(plan.Resource, key.Namespace, key.Name)
	}
	if plan.Delete {
		pods := 0
		if g, ok := c.groupIndex[key]; ok {
			c.groups[g].withdraw(plan.Resource)
			pods = c.groups[g].running + c.groups[g].pending
		}
		c.store.forget(plan.Resource, key.Namespace, key.Name)
		c.drains.forget(c, plan.Resource, key)
		if plan.Resource == eventlog.ResourceClaims {
			if inputs, handled := c.devices.delete(key, workload.Start.Add(c.now)); handled {
				return inputs, nil
			}
		}
		inputs := []eventlog.Payload{
			&eventlog.Deleted{Resource: plan.Resource, Namespace: key.Namespace, Name: key.Name, UID: uid}}
		if plan.Resource == eventlog.PodGroups {
			inputs = append(inputs, c.devices.groupGoes(key, pods)...)
		}
		return inputs, nil
	}
	object := plan.Object
	if created := object.GetCreationTimestamp(); object.GetUID() == "" || created.IsZero() {
		object = object.DeepCopyObject().(eventlog.Object)
		object.SetUID(uid)
		if created.IsZero() {
			object.SetCreationTimestamp(metav1.NewTime(workload.Start.Add(c.now)))
		}
	}
	if c.devices.holdsUp(object) || c.store.holdsUp(object) {
		return nil, nil
	}
	if cluster.DeclaresGroups(plan.Resource) {
		g := &c.groups[c.group(key)]
		minimum, _ := workload.GroupMinimum(object)
		g.declare(groupObject{plan.Resource, uid, minimum})
		c.checkGang(g)
	}
	c.store.remember(object)
	c.devices.remember(object)
	c.drains.remember(c, object)
	inputs, object, err := c.devices.groupComes(object)
	if err != nil {
		return nil, err
	}
	inputs = append(inputs, upserted(plan.Resource, object))
	if plan.Resource != eventlog.PodGroups {
		return inputs, nil
	}
	waiting, err := c.tellWaiting(key)
	return append(inputs, waiting...), err
}

// podArrives creates a pod, for the first time or again. The pod waits while another pod has its name, or a quota
// refuses it. A pod that names a missing node is lost before it arrives.
func (c *Cluster) podArrives(i int32) ([]eventlog.Payload, error) {
	plan, p := &c.work.Pods[i], &c.pods[i]
	name, uid := c.name(i), c.uid(i)
	if other, taken := c.live[uid]; taken {
		o := &c.work.Pods[other]
		return nil, fmt.Errorf("pod %s/%s arrives with the UID %s of pod %s/%s, which is there", plan.Namespace,
			plan.Name, uid, o.Namespace, o.Name)
	}
	again := p.phase == gone
	if plan.Deadline > 0 && plan.Deadline <= c.now && c.now > plan.Arrival {
		return c.neverComes(i), nil
	}
	if !c.names.take(name, i) {
		return nil, nil
	}
	nodeName := p.template.Spec.NodeName
	if c.quotas.Limits(name.Namespace) {
		exists := nodeName != "" || plan.Template.UID != "" && !again
		if admitted, err := c.quotas.admit(i, c.build(i, name.Name), exists); err != nil || !admitted {
			c.leaveName(name)
			return nil, err
		}
	}
	node := c.nodes.live[nodeName]
	c.account.Arrived(again)
	c.live[uid] = i
	p.phase, p.arrived, p.uid = pending, c.now, uid
	if p.group >= 0 {
		c.memberArrives(&c.groups[p.group], plan, again)
	}
	if again {
		c.befallen[i].cameAgain = true
		c.disruptions(i, func(s *report.Disruptions) { s.CameAgain++ })
	} else {
		c.single(i, func(t *report.Times) {
			*t = report.Times{Submitted: c.now, CompleteAt: c.now, Complete: true, Priority: priorityOf(plan.Template)}
		})
		c.planChanges(i)
	}
	if nodeName != "" && node == nil {
		// Its arrival and its end cancel out. Other consequences of its end do not.
		return c.endPod(i, ending{how: report.Lost})[1:], nil
	}
	if node == nil {
		c.enqueue(p)
	}
	if node != nil {
		c.start(i, node)
	}
	return c.tellPod(i, name.Name)
}

// tellPod returns the inputs for the present pod and the claims made for it.
func (c *Cluster) tellPod(i int32, name string) ([]eventlog.Payload, error) {
	pod := c.build(i, name)
	inputs := c.store.makeEphemeral(pod)
	if len(pod.Spec.ResourceClaims) > 0 {
		claims, err := c.devices.makeClaims(pod)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, claims...)
	}
	return append(inputs, upserted(eventlog.Pods, pod)), nil
}

// withClaims returns the present pod with the names of the claims that were made from templates for it; nil if it has
// no claim.
func (c *Cluster) withClaims(i int32, name string) *corev1.Pod {
	if _, made := c.devices.made[c.pods[i].uid]; !made && len(c.pods[i].template.Spec.ResourceClaims) == 0 {
		return nil
	}
	pod := c.build(i, name)
	c.devices.nameClaims(pod)
	return pod
}

// planChanges queues the planned changes of a pod that arrives, up to its deadline. They also hold for a pod that
// comes in its place.
func (c *Cluster) planChanges(i int32) {
	plan := &c.work.Pods[i]
	if plan.Deadline > 0 {
		c.queue.add(event{at: max(plan.Deadline, c.now), kind: podDeadline, index: i})
	}
	for k, u := range plan.Updates {
		if u.At >= c.now {
			c.queue.add(event{at: u.At, kind: podChanges, index: i, sub: int32(k)})
		}
	}
}

// memberArrives counts a member that arrives.
func (c *Cluster) memberArrives(g *groupState, plan *workload.PodPlan, again bool) {
	g.pending++
	if !again {
		if g.arrived == 0 {
			g.Submitted, g.Priority = c.now, priorityOf(plan.Template)
		}
		g.arrived++
	}
	g.asked = max(g.asked, cluster.MemberMinimum(plan.Template))
	c.checkGang(g)
}

// build makes the present pod.
func (c *Cluster) build(i int32, name string) *corev1.Pod {
	p := &c.pods[i]
	pod := c.work.Pods[i].Build(p.template, p.uid, p.arrived)
	pod.Name = name
	return pod
}

// start lets a pod run on a node.
func (c *Cluster) start(i int32, node *liveNode) {
	plan, p := &c.work.Pods[i], &c.pods[i]
	c.readPriority(i)
	c.dequeue(i)
	p.phase, p.node, p.bound = running, node, c.now
	node.pods[i] = struct{}{}
	c.drains.podChanges(c, i)
	node.planEviction(i, p.template, noExecute(node.object), c.now, &c.queue)
	bound := p.template.Spec.NodeName != ""
	c.account.Started(report.Start{
		Template: p.template, Wait: c.now - p.arrived, Bound: bound, Placed: p.placed, Again: c.befallen[i] != nil,
	})
	first := !p.placed
	p.placed = true
	if runs := plan.Runs(); runs > 0 {
		p.ends = c.now + runs
		c.queue.add(event{at: p.ends, kind: podEnds, index: i})
	}
	if p.group >= 0 {
		g := &c.groups[p.group]
		g.running++
		g.pending--
		c.checkGang(g)
		return
	}
	if first && !bound {
		c.account.JobPlaced(report.SinglePod, c.now-c.submitted(i))
	}
	c.single(i, func(t *report.Times) {
		if !t.Placed {
			t.Placed, t.PlacedAt = true, c.now
		}
	})
}

// job returns the group's kind of job.
func (g *groupState) job() report.Job {
	if g.counted {
		return report.Gang
	}
	return report.Group
}

// checkGang notes when a gang has its members, when they are placed, and when it has lost its minimum again.
func (c *Cluster) checkGang(g *groupState) {
	minimum, gang := g.minimum()
	if minimum == 0 {
		return
	}
	g.need = minimum
	if gang && !g.counted {
		g.counted = true
		if g.Placed {
			c.account.GangPlaced(g.PlacedAt-g.CompleteAt, false)
		}
	}
	if !g.Complete && g.arrived >= minimum {
		g.Complete, g.CompleteAt = true, c.now
	}
	switch stands := g.Complete && g.running+g.completed >= minimum; {
	case stands && !g.stands:
		g.stoodAt = c.now
		if !g.Placed {
			g.Placed, g.PlacedAt = true, c.now
			c.account.JobPlaced(g.job(), c.now-g.CompleteAt)
			if g.counted {
				c.account.GangPlaced(c.now-g.CompleteAt, false)
			}
		} else if g.counted {
			c.account.GangPlaced(c.now-g.fellAt, true)
		}
		g.stands = true
	case !stands && g.stands:
		g.stands, g.fellAt = false, c.now
	}
	g.checkWaiting(&c.account)
}

// checkWaiting counts the gangs that have members which wait for their minimum to be placed.
func (g *groupState) checkWaiting(account *report.Account) {
	waits := g.counted && !g.stands && g.pending > 0
	if waits == g.waits {
		return
	}
	g.waits = waits
	if waits {
		account.GangWaits(+1)
	} else {
		account.GangWaits(-1)
	}
}

// ending describes the end of a pod.
type ending struct {
	how report.Outcome
	// by is the entity that preempted it; "" if it is not known.
	by string
	// reason is the reason of its condition DisruptionTarget; "" for none.
	reason string
}

// plannedEnd returns the outcome of a pod whose time is over. It has failed if the plan says so, and if its own
// deadline has ended it before.
func plannedEnd(plan *workload.PodPlan) report.Outcome {
	if plan.Duration == 0 || plan.Runs() < plan.Duration || plan.Fails {
		return report.Failed
	}
	return report.Completed
}

// endPod removes a pod. It returns the resulting inputs: first the pod's end, and last the deletion of its group if no
// planned member is left.
func (c *Cluster) endPod(i int32, end ending) []eventlog.Payload {
	plan, p := &c.work.Pods[i], &c.pods[i]
	name := c.name(i)
	c.readPriority(i)
	c.dequeue(i)
	ran, template, on := p.phase == running, p.template, p.node
	if ran {
		delete(on.pods, i)
		delete(on.evictions, i) // if it comes again to this node, its tolerated seconds begin again
		c.account.Stopped(template)
	} else if p.phase != pending || end.how == report.Completed || end.how == report.Failed {
		panic(fmt.Sprintf("pod %s/%s ends in phase %d", plan.Namespace, plan.Name, p.phase))
	} else {
		c.account.Left()
	}
	again := end.how.IsDisruption() && c.disrupt(i, end, ran)
	c.account.Gone(again)
	if p.group < 0 && end.how == report.Completed && plan.Template.Spec.NodeName == "" {
		run := c.now - p.bound
		c.account.JobCompleted(report.SinglePod, c.now-c.submitted(i)-run, run)
	}
	inputs := c.tellEnd(i, end, leavingPod{name, p.uid, template, c.withClaims(i, name.Name)}, on)
	delete(c.live, p.uid)
	p.phase, p.node, p.uid, p.ended = gone, nil, "", end.how
	c.drains.podChanges(c, i)
	for _, waiting := range c.quotas.release(i, plan.Namespace) {
		c.queue.add(event{at: c.now, kind: podArrives, index: waiting})
	}
	if again {
		c.comeAgain(i)
	} else {
		c.single(i, func(t *report.Times) { t.Ended, t.EndedAt = true, c.now })
		if plan.Batch != nil {
			c.startNext(plan.Batch)
		}
	}
	return append(inputs, c.leaveGroup(p, end.how, ran, again)...)
}

// tellEnd returns the inputs for the end of a pod that was on a node, nil for none. A pod on a node whose kubelet does
// not answer is deleted, and stays. Other pods leave their names.
func (c *Cluster) tellEnd(i int32, end ending, pod leavingPod, on *liveNode) (inputs []eventlog.Payload) {
	if on != nil && on.silent {
		on.leaving = append(on.leaving, pod)
		c.nodes.leaving[pod.uid] = struct{}{}
		return append(inputs, upserted(eventlog.Pods, pod.deleted(c.build(i, pod.name.Name), on, c.now, end.reason)))
	}
	c.leaveName(pod.name)
	if phase, told := endPhases[end.how]; told && c.pods[i].group >= 0 {
		// Whether a gang misses a member that ends depends on the member's outcome.
		told := c.build(i, pod.name.Name)
		told.Spec.NodeName, told.Status.Phase = on.object.Name, phase
		inputs = append(inputs, upserted(eventlog.Pods, told))
	}
	if end.reason != "" {
		inputs = append(inputs, upserted(eventlog.Pods, pod.deleted(c.build(i, pod.name.Name), on, c.now, end.reason)))
	}
	return append(inputs, pod.removed(&c.store, &c.devices)...)
}

// endPhases are the phases in which pods end on their own.
var endPhases = map[report.Outcome]corev1.PodPhase{
	report.Completed: corev1.PodSucceeded, report.Failed: corev1.PodFailed,
}

// leaveGroup subtracts a member, which ran or did not, and deletes its group if it was the last one and does not come
// again.
func (c *Cluster) leaveGroup(p *podState, how report.Outcome, ran, again bool) []eventlog.Payload {
	if p.group < 0 {
		return nil
	}
	g := &c.groups[p.group]
	if ran {
		g.running--
	} else {
		g.pending--
	}
	if how == report.Completed {
		g.completed++
	}
	stood := g.stands
	c.checkGang(g)
	g.checkWaiting(&c.account)
	if how != report.Completed && (stood && !g.stands || !g.Placed || !g.isGang()) {
		g.fall(how, stood)
	}
	inputs := c.devices.podGone(g.name, g.running+g.pending)
	if again {
		return inputs
	}
	return append(inputs, c.leaveForGood(g)...)
}

// fall notes the outcome of the member with which the group fell below its minimum, if stood, or of a member of a
// group that never had its minimum.
func (g *groupState) fall(how report.Outcome, stood bool) {
	g.cause = how
	if !stood {
		return
	}
	switch how {
	case report.Preempted:
		g.broken.preempted++
	case report.Lost:
		g.broken.lost++
	case report.Evicted:
		g.broken.evicted++
	}
}

// leaveForGood subtracts a planned member, and deletes the group if it was the last one.
func (c *Cluster) leaveForGood(g *groupState) []eventlog.Payload {
	if g.left--; g.left > 0 {
		return nil
	}
	c.finishGroup(g)
	var gone []eventlog.Payload
	for _, o := range g.objects {
		gone = append(gone,
			&eventlog.Deleted{Resource: o.resource, Namespace: g.name.Namespace, Name: g.name.Name, UID: o.uid})
	}
	g.objects = nil
	return append(gone, c.devices.groupGoes(g.name, 0)...)
}

// declare adds or changes an object that declares the group.
func (g *groupState) declare(o groupObject) {
	g.withdraw(o.resource)
	g.objects = append(g.objects, o)
	order := cluster.GroupResources()
	slices.SortFunc(g.objects, func(a, b groupObject) int {
		return cmp.Compare(slices.Index(order, a.resource), slices.Index(order, b.resource))
	})
}

// withdraw removes one.
func (g *groupState) withdraw(resource eventlog.Resource) {
	g.objects = slices.DeleteFunc(g.objects, func(o groupObject) bool { return o.resource == resource })
}

// startNext lets the next pod of a batch arrive, now. A pod whose deadline is over never does.
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
