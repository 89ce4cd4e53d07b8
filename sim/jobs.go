package sim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/sim/report"
)

// Report returns a row for each group of which a pod has arrived, and, with Options.Singles, for each pod of no group
// that has: in the order in which they were submitted, by name where that is the same, groups before pods.
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

// enqueue notes that the pod will be in the scheduler's queue once that is told about it.
func (c *Cluster) enqueue(p *podState) {
	p.queued = true
	if p.group >= 0 {
		c.groups[p.group].queued++
	}
}

// dequeue notes that it will not when the scheduler is told next, of its bind or its end. With the last pod of a group
// in its queue goes what it has counted.
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

// countAttempts takes down the attempts at a pod of no group.
func (c *Cluster) countAttempts(i int32) {
	if c.singles != nil {
		name := c.name(i)
		c.singles[i].Attempts += int32(c.scheduler.PodAttempts(name.Namespace, name.Name))
	}
}

// countRest takes down the attempts at whatever still is in the queue.
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

// finishGroup notes that the last pod of a group is gone.
func (c *Cluster) finishGroup(g *groupState) {
	g.Ended, g.EndedAt = true, c.now
	if g.stands {
		run := c.now - g.stoodAt
		c.account.JobCompleted(g.job(), c.now-g.CompleteAt-run, run)
	}
}

// readPriority takes down the priority that the scheduler gives a pod, for its group or for itself.
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

// single notes what happens to a pod of no group.
func (c *Cluster) single(i int32, note func(*report.Times)) {
	if c.singles != nil && c.pods[i].group < 0 {
		note(&c.singles[i])
	}
}
