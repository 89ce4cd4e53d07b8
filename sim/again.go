package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
)

// Requeue says which pods come again that were preempted, lost with their node, or evicted with their gang: at once, as
// new pods, and from their start. A planned pod that came again is one pod still, whatever its new name.
type Requeue uint8

const (
	// RequeueOwned: those that a controller owns (workload.PodPlan.Controller), as it would make them again.
	RequeueOwned Requeue = iota
	// RequeueAll: all of them. One that nothing owns comes again under its name, as if it was submitted again.
	RequeueAll
	// RequeueNone: none.
	RequeueNone
)

var requeueNames = []string{RequeueOwned: "owned", RequeueAll: "all", RequeueNone: "none"}

// String is the choice as a flag has it.
func (r Requeue) String() string { return requeueNames[r] }

// ParseRequeue is the other way round.
func ParseRequeue(text string) (Requeue, error) {
	i := slices.Index(requeueNames, text)
	if i < 0 {
		return 0, fmt.Errorf("%q: want one of %q", text, requeueNames)
	}
	return Requeue(i), nil
}

// befallen is what befell a planned pod that was preempted, lost or evicted.
type befallen struct {
	// submitted is the time at which it arrived for the first time.
	submitted time.Duration
	// times is the number of times that a pod was made in its place, and name and uid are those of the last one;
	// without one they are those of the plan.
	times int
	name  string
	uid   types.UID
	// cameAgain says that one of those arrived.
	cameAgain bool
	// preempted, lost and evicted say which befell it.
	preempted, lost, evicted bool
}

// name returns the name that the pod has, or will arrive with.
func (c *Cluster) name(i int32) types.NamespacedName {
	plan := &c.work.Pods[i]
	if b := c.befallen[i]; b != nil && b.times > 0 {
		return types.NamespacedName{Namespace: plan.Namespace, Name: b.name}
	}
	return types.NamespacedName{Namespace: plan.Namespace, Name: plan.Name}
}

// uid returns the UID that the pod will arrive with.
func (c *Cluster) uid(i int32) types.UID {
	if b := c.befallen[i]; b != nil && b.times > 0 {
		return b.uid
	}
	return c.work.Pods[i].EffectiveUID()
}

// submitted returns when the pod arrived for the first time.
func (c *Cluster) submitted(i int32) time.Duration {
	if b := c.befallen[i]; b != nil {
		return b.submitted
	}
	return c.pods[i].arrived
}

// setBack notes that a pod is preempted, lost or evicted, and reports whether it comes again.
func (c *Cluster) setBack(i int32, end ending, ran bool) (again bool) {
	p := &c.pods[i]
	b := c.befallen[i]
	if b == nil {
		b = &befallen{submitted: p.arrived}
		c.befallen[i] = b
	}
	b.preempted = b.preempted || end.how == report.Preempted
	b.lost = b.lost || end.how == report.Lost
	b.evicted = b.evicted || end.how == report.Evicted
	held := time.Duration(0)
	if ran {
		held = c.now - p.bound
	}
	gpuSeconds := c.account.SetBack(end.how, p.template, held)
	c.setbacks(i, func(s *report.Setbacks) { s.Note(end.how, end.by, gpuSeconds) })
	return c.comesAgain(i, end.how)
}

// setbacks notes what befell a pod, with its group's or for itself.
func (c *Cluster) setbacks(i int32, note func(*report.Setbacks)) {
	if g := c.pods[i].group; g >= 0 {
		note(c.groups[g].SetBack())
		return
	}
	c.single(i, func(t *report.Times) { note(t.SetBack()) })
}

// comesAgain reports whether a pod that went so comes again.
func (c *Cluster) comesAgain(i int32, how report.Outcome) bool {
	plan := &c.work.Pods[i]
	switch {
	case plan.Replaced || c.opts.Requeue == RequeueNone || plan.Deadline > 0 && plan.Deadline <= c.now:
		return false
	case plan.Controller == nil:
		return c.opts.Requeue == RequeueAll
	}
	return how != report.Lost || !plan.Controller.PerNode
}

// comeAgain has a pod made in the place of one that is gone, now. It is as its controller's template has it: without
// node and status.
func (c *Cluster) comeAgain(i int32) {
	b, p := c.befallen[i], &c.pods[i]
	b.times++
	b.name, b.uid = c.work.Pods[i].Again(b.times)
	if t := p.template; t.Spec.NodeName != "" || !t.CreationTimestamp.IsZero() || t.DeletionTimestamp != nil ||
		t.Status.Phase != "" {
		if c.unbound[t] == nil {
			fresh := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
			fresh.Spec.NodeName, fresh.Status.Phase = "", corev1.PodPending
			fresh.CreationTimestamp, fresh.DeletionTimestamp = corev1.Pod{}.CreationTimestamp, nil
			c.unbound[t] = fresh
		}
		p.template = c.unbound[t]
	}
	c.queue.add(event{at: c.now, kind: podArrives, index: i})
}

// neverComes takes a pod off the plan: its time is over before it could arrive.
func (c *Cluster) neverComes(i int32) []eventlog.Payload {
	p := &c.pods[i]
	again := p.phase == gone
	p.phase = gone
	if name := c.name(i); !c.names.has(name) {
		c.offerName(name)
	}
	if again {
		c.account.Gone(false)
		c.single(i, func(t *report.Times) { t.Ended, t.EndedAt = true, c.now })
	}
	if plan := &c.work.Pods[i]; plan.Batch != nil {
		c.startNext(plan.Batch)
	}
	if p.group < 0 {
		return nil
	}
	return c.leaveForGood(&c.groups[p.group])
}

// podNames are the names of the pods that exist, and the pods that wait for one of them.
type podNames struct {
	held    map[types.NamespacedName]int32
	waiting map[types.NamespacedName][]int32
}

func newPodNames() podNames {
	return podNames{held: map[types.NamespacedName]int32{}, waiting: map[types.NamespacedName][]int32{}}
}

// has reports whether a pod has the name.
func (n *podNames) has(name types.NamespacedName) bool {
	_, taken := n.held[name]
	return taken
}

// take gives the name to a pod, if no other one has it. Otherwise the pod waits for it: those that come again and those
// that came first, by the order of the plans, before others.
func (n *podNames) take(name types.NamespacedName, i int32) bool {
	if !n.has(name) {
		n.held[name] = i
		return true
	}
	at, _ := slices.BinarySearch(n.waiting[name], i)
	n.waiting[name] = slices.Insert(n.waiting[name], at, i)
	return false
}

// leaveName gives a name back.
func (c *Cluster) leaveName(name types.NamespacedName) {
	delete(c.names.held, name)
	c.offerName(name)
}

// offerName has the first pod arrive now that waits for a name which is free.
func (c *Cluster) offerName(name types.NamespacedName) {
	waiting := c.names.waiting[name]
	if len(waiting) == 0 {
		return
	}
	if c.names.waiting[name] = waiting[1:]; len(waiting) == 1 {
		delete(c.names.waiting, name)
	}
	c.queue.add(event{at: c.now, kind: podArrives, index: waiting[0]})
}
