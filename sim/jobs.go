package sim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/sim/report"
)

// Report returns a row for each group of which a pod has arrived, and, with Options.Singles, for each arrived pod
// without a group. The rows are in the order of submission, then by name, groups before pods.
func (c *Cluster) Report() []report.Row {
	var rows []report.Row
	for i := range c.groups {
		if g := &c.groups[i]; g.arrived > 0 {
			rows = append(rows, g.Row(g.name.String(), g.arrived))
		}
	}
	for i := range c.singles {
		if t := &c.singles[i]; t.Complete {
			plan := &c.work.Pods[i]
			rows = append(rows, t.Row(plan.Namespace+"/"+plan.Name, 1))
		}
	}
	report.SortRows(rows)
	return rows
}

// Timeline returns how the simulation went, nil without Options.Timeline. It is called after Run.
func (c *Cluster) Timeline() *report.Timeline { return c.timeline }

// enqueue notes that the pod will be in the scheduler's queue after the next inputs.
func (c *Cluster) enqueue(p *podState) {
	p.queued = true
	if p.group >= 0 {
		c.groups[p.group].queued++
	}
}

// dequeue notes that the pod will not be in the scheduler's queue after the next inputs, which have its bind or its
// end. The queue drops a group's counts with its last pod.
func (c *Cluster) dequeue(i int32) {
	p := &c.pods[i]
	if !p.queued {
		return
	}
	p.queued = false
	if p.group < 0 {
		c.countAttempts(i)
		return
	}
	g := &c.groups[p.group]
	if g.queued--; g.queued == 0 {
		g.Attempts += int32(c.scheduler.GangAttempts(g.name.Namespace, g.name.Name))
	}
}

// countAttempts records the attempts at a pod without a group.
func (c *Cluster) countAttempts(i int32) {
	if c.singles != nil {
		name := c.name(i)
		c.singles[i].Attempts += int32(c.scheduler.PodAttempts(name.Namespace, name.Name))
	}
}

// countRest records the attempts at the pods and groups that are still in the queue.
func (c *Cluster) countRest() {
	for i := range c.groups {
		if g := &c.groups[i]; g.queued > 0 {
			g.Attempts += int32(c.scheduler.GangAttempts(g.name.Namespace, g.name.Name))
		}
	}
	for i := range c.pods {
		p := &c.pods[i]
		if p.queued {
			c.readPriority(int32(i))
		}
		if p.queued && p.group < 0 {
			c.countAttempts(int32(i))
		}
	}
}

// finishGroup notes that the last pod of a group has ended.
func (c *Cluster) finishGroup(g *groupState) {
	g.Ended, g.EndedAt = true, c.now
	if g.stands {
		run := c.now - g.stoodAt
		c.account.JobCompleted(g.job(), c.now-g.CompleteAt-run, run)
	}
}

// readPriority records the priority that the scheduler gives a pod, for its group or for the pod alone.
func (c *Cluster) readPriority(i int32) {
	p := &c.pods[i]
	if p.group < 0 && c.singles == nil {
		return
	}
	priority, ok := c.scheduler.Priority(p.uid)
	if !ok {
		return
	}
	if p.group >= 0 {
		c.groups[p.group].Priority = priority
		return
	}
	c.single(i, func(t *report.Times) { t.Priority = priority })
}

// priorityOf is the pod's own priority.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// single notes an event of a pod without a group.
func (c *Cluster) single(i int32, note func(*report.Times)) {
	if c.singles != nil && c.pods[i].group < 0 {
		note(&c.singles[i])
	}
}
