package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// entities maps pods and gangs to entities of the queue. An entity is a single pod, a gang, or all gangs that are
// admitted together. It also makes the queue recheck entities after a change of their members or objects.
type entities struct {
	cluster  *cluster.State
	queue    *queue.Queue
	profiles *profiles
}

// keyOf returns the key of the entity in which the pod is placed; see resizeKey.
func (n *entities) keyOf(p *cluster.Pod) queue.Key {
	if p.Group != nil && plansGangs(n.profiles.of(p.Object)) {
		return keyOfGang(p.Group)
	}
	return fwk.PodKey(p.Object.Namespace, p.Object.Name)
}

func keyOfGang(g *cluster.Group) queue.Key {
	if c := g.Composite(); c != nil {
		return fwk.CompositePodGroupKey(c.Namespace, c.Name)
	}
	return fwk.PodGroupKey(g.Namespace, g.Name)
}

// gangsOf returns the gangs of the entity of that key; none for a pod.
func (n *entities) gangsOf(key queue.Key) []*cluster.Group {
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := n.cluster.Gangs().Named(key.Namespace, key.Name); g != nil {
			return []*cluster.Group{g}
		}
	case fwk.CompositePodGroupKeyType:
		if c := n.cluster.Gangs().Composite(key.Namespace, key.Name); c != nil {
			return c.Gangs()
		}
	}
	return nil
}

// compositeOf returns the composite of an entity, nil for other entities.
func (n *entities) compositeOf(e *queue.Entity) *cluster.Composite {
	if key := e.Key(); key.Type == fwk.CompositePodGroupKeyType {
		return n.cluster.Gangs().Composite(key.Namespace, key.Name)
	}
	return nil
}

// partOf is the queue's Part: the name of the gang that a member of a composite belongs to.
func (n *entities) partOf(pod *v1.Pod) string {
	if name, ok := n.cluster.Gangs().NameOf(pod); ok {
		return name.String()
	}
	return ""
}

// left counts the members of g that the current attempt has not tried yet.
func (n *entities) left(g *cluster.Group) int {
	key := keyOfGang(g)
	e := n.queue.Get(key)
	switch {
	case e == nil:
		return 0
	case key.Type == fwk.CompositePodGroupKeyType:
		return e.NumToTryOf(g.String())
	}
	return e.NumToTry()
}

// unitOf returns the key of the entity to which the gangs directly below a CompositePodGroup belong. It returns false
// if there is none.
func (n *entities) unitOf(namespace, composite string) (key queue.Key, ok bool) {
	c := n.cluster.Gangs().UnitOf(namespace, composite)
	if c == nil {
		return queue.Key{}, false
	}
	return fwk.CompositePodGroupKey(c.Namespace, c.Name), true
}

// keyFor returns the key of a gang's entity, by the facts about the gang.
func keyFor(name types.NamespacedName, facts cluster.GangFacts) queue.Key {
	if c := facts.Composite; c != (types.NamespacedName{}) {
		return fwk.CompositePodGroupKey(c.Namespace, c.Name)
	}
	return fwk.PodGroupKey(name.Namespace, name.Name)
}

// recheckGang makes the queue recheck all members of a gang if its facts differ from the facts before. Otherwise it
// does nothing, so that a new pod costs the same in a gang of any size.
func (n *entities) recheckGang(name types.NamespacedName, before cluster.GangFacts) {
	g := n.cluster.Gangs().Named(name.Namespace, name.Name)
	after := cluster.FactsOf(g)
	if after == before {
		return
	}
	was, key := keyFor(name, before), keyFor(name, after)
	if key != was {
		n.rekey(g)
		n.recheck(was)
	}
	n.recheck(key)
	for _, c := range n.cluster.Gangs().CompositesNaming(name) {
		n.recheck(fwk.CompositePodGroupKey(c.Namespace, c.Name))
	}
	if after.Declared && before.Declared && after.Min < before.Min {
		n.queue.Activate(key)
	}
}

// rekey moves the gang's members to the entity to which they belong now.
func (n *entities) rekey(g *cluster.Group) {
	if g == nil {
		return
	}
	for _, p := range g.Members() {
		e := n.queue.Find(p.Object.UID)
		if e == nil || e.Resize() {
			continue
		}
		if key := n.keyOf(p); key != e.Key() {
			n.queue.Add(key, p.Object)
			if p.Stage != cluster.Pending {
				n.queue.MarkPlaced(key, p.Object.UID)
			}
		}
	}
}

// recheck makes the queue run PreEnqueue for an entity's members again.
func (n *entities) recheck(key queue.Key) { n.queue.Recheck(key) }

// recompose makes the queue recheck the gangs below a CompositePodGroup that came, changed or went, and the entity to
// which they belonged before.
func (n *entities) recompose(name, before types.NamespacedName) {
	for _, g := range n.cluster.Gangs().Below(name.Namespace, name.Name) {
		n.rekey(g)
		n.recheck(keyOfGang(g))
		n.queue.Retry(keyOfGang(g))
	}
	if before == (types.NamespacedName{}) {
		return
	}
	was := fwk.CompositePodGroupKey(before.Namespace, before.Name)
	if now, ok := n.unitOf(name.Namespace, name.Name); !ok || now != was {
		n.recheck(was)
		n.queue.Retry(was)
	}
}

// dequeue removes a pod from its entity, and so from the queue.
func (n *entities) dequeue(uid types.UID) {
	if e := n.queue.Find(uid); e != nil {
		n.queue.Delete(e.Key(), uid)
	}
}

// priorityOf is the queue's Priority: the priority of a PodGroup or a CompositePodGroup.
func (n *entities) priorityOf(key queue.Key) (int32, bool) {
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := n.cluster.Gangs().Named(key.Namespace, key.Name); g != nil {
			return g.Priority()
		}
	case fwk.CompositePodGroupKeyType:
		if c := n.cluster.Gangs().Composite(key.Namespace, key.Name); c != nil {
			return c.Priority()
		}
	}
	return 0, false
}

// regroup makes the queue recheck the gangs that an object describes. A gang that needs fewer members than before is
// retried at once.
func (n *entities) regroup(c *cluster.ObjectChange) {
	switch name := c.Name; c.Resource {
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		n.recheckGang(name, c.Gang)
		g := n.cluster.Gangs().Named(name.Namespace, name.Name)
		n.recheck(keyFor(name, cluster.FactsOf(g))) // its priority, for one
	case eventlog.CompositePodGroups:
		n.recompose(name, c.Unit)
	case eventlog.PriorityClasses:
		for _, g := range n.cluster.Gangs().OfClass(name.Name) {
			n.recheck(keyOfGang(g))
		}
		for _, c := range n.cluster.Gangs().CompositesOfClass(name.Name) {
			if unit, ok := n.unitOf(c.Namespace, c.Name); ok {
				n.recheck(unit)
				continue
			}
			n.recheck(fwk.CompositePodGroupKey(c.Namespace, c.Name))
			for _, g := range c.Gangs() {
				n.recheck(keyOfGang(g))
			}
		}
	}
}

// recheckGroup makes the queue recheck the gang of a pod that came, went or got its node.
func (n *entities) recheckGroup(p *cluster.Pod) {
	if p.Group != nil {
		n.recheck(keyOfGang(p.Group))
	}
}

// retryGang retries the gang of a pod after its backoff. Either the pod is no longer to be placed: it may have been the
// member that did not fit, or that left no room for another. Or the pod came or became ready: it may fit where others
// did not.
func (n *entities) retryGang(p *cluster.Pod) {
	if p.Group != nil {
		n.queue.Retry(keyOfGang(p.Group))
	}
}

// requeue adds a pod without a node to the queue, or updates it there.
func (n *entities) requeue(p *cluster.Pod, old *v1.Pod) {
	if n.profiles.of(p.Object) == nil {
		return
	}
	key := n.keyOf(p)
	switch {
	case !p.MayBePlaced():
		n.dequeue(p.Object.UID)
		n.recheckGroup(p)
		n.retryGang(p)
	case old == nil:
		n.queue.Add(key, p.Object)
		n.retryGang(p)
	default:
		n.queue.Update(key, old, p.Object)
		n.recheckGroup(p)
		if len(p.Object.Spec.SchedulingGates) < len(old.Spec.SchedulingGates) {
			n.retryGang(p)
		}
	}
}

// markPending makes a pod that lost its node wait for another node, unless it is being deleted or evicted.
func (n *entities) markPending(key queue.Key, p *cluster.Pod) {
	if !p.MayBePlaced() {
		n.queue.Delete(key, p.Object.UID)
		n.recheckGroup(p)
		return
	}
	n.queue.MarkPending(key, p.Object.UID)
}
