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

// Requeue selects the pods that come again after they were preempted, lost with their node, or evicted with their
// gang. They come at once, as new pods, and run from their start. A planned pod that came again still counts as one
// pod, whatever its new name.
type Requeue uint8

const (
	// RequeueOwned: pods that have a controller (workload.PodPlan.Controller), which would make them again.
	RequeueOwned Requeue = iota
	// RequeueAll: all of them. A pod without a controller comes again under its name, as if submitted again.
	RequeueAll
	// RequeueNone: none.
	RequeueNone
)

var requeueNames = []string{RequeueOwned: "owned", RequeueAll: "all", RequeueNone: "none"}

// String is the name of the choice as a flag's value.
func (r Requeue) String() string { return requeueNames[r] }

// ParseRequeue is the inverse of String.
func ParseRequeue(text string) (Requeue, error) {
	i := slices.Index(requeueNames, text)
	if i < 0 {
		return 0, fmt.Errorf("%q: want one of %q", text, requeueNames)
	}
	return Requeue(i), nil
}

// befallen records what happened to a planned pod that was preempted, lost or evicted.
type befallen struct {
	// submitted is the time at which it arrived for the first time.
	submitted time.Duration
	// times is the number of pods made in its place, and name and uid belong to the last of them; without one they are
	// the plan's.
	times int
	name  string
	uid   types.UID
	// cameAgain says that one of them arrived.
	cameAgain bool
	// preempted, lost and evicted say which of these happened to it.
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

// submitted returns the time at which the pod arrived for the first time.
func (c *Cluster) submitted(i int32) time.Duration {
	if b := c.befallen[i]; b != nil {
		return b.submitted
	}
	return c.pods[i].arrived
}

// disrupt notes that a pod is preempted, lost or evicted, and reports whether it comes again.
func (c *Cluster) disrupt(i int32, end ending, ran bool) (again bool) {
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
	gpuSeconds := c.account.Disrupted(end.how, p.template, held)
	c.disruptions(i, func(s *report.Disruptions) { s.Note(end.how, end.by, gpuSeconds) })
	return c.comesAgain(i, end.how)
}

// disruptions notes the disruptions of a pod, for its group or for the pod alone.
func (c *Cluster) disruptions(i int32, note func(*report.Disruptions)) {
	if g := c.pods[i].group; g >= 0 {
		note(c.groups[g].Disrupted())
		return
	}
	c.single(i, func(t *report.Times) { note(t.Disrupted()) })
}

// comesAgain reports whether a pod with this outcome comes again.
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

// comeAgain makes a pod in the place of a deleted one, now. It is as in its controller's template: without node and
// status.
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

// neverComes removes a pod from the plan: its time is over before it could arrive.
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

// take gives the name to a pod, if no other one has it. Otherwise the pod waits for it. Pods that come again, and pods
// that came first, by the order of the plans, are before others.
func (n *podNames) take(name types.NamespacedName, i int32) bool {
	if !n.has(name) {
		n.held[name] = i
		return true
	}
	at, _ := slices.BinarySearch(n.waiting[name], i)
	n.waiting[name] = slices.Insert(n.waiting[name], at, i)
	return false
}

// leaveName releases a name.
func (c *Cluster) leaveName(name types.NamespacedName) {
	delete(c.names.held, name)
	c.offerName(name)
}

// offerName lets the first pod arrive that waits for a name which is now free.
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
