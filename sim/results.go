package sim

import "github.com/rollcall-sched/rollcall/sim/report"

// tally counts the planned pods of a group by their outcome.
type tally struct {
	report.Outcomes
	cameAgain bool
}

// results counts the outcomes of the planned pods and of the gangs at the end. It records the outcome of each group and
// of each single pod for Report.
func (c *Cluster) results() report.Results {
	var r report.Results
	r.Requeued.Policy = c.opts.Requeue.String()
	tallies := make([]tally, len(c.groups))
	for i := range c.pods {
		outcome := c.outcome(int32(i))
		r.Pods.Add(outcome)
		if g := c.pods[i].group; g >= 0 {
			tallies[g].Add(outcome)
		}
		c.single(int32(i), func(t *report.Times) { t.Outcome = outcome })
		if p := &c.pods[i]; p.phase == pending && p.group < 0 {
			r.Waiting.Pods.Add(c.lastActivity - p.arrived)
		}
		b := c.befallen[int32(i)]
		if b == nil {
			continue
		}
		if g := c.pods[i].group; g >= 0 && b.cameAgain {
			tallies[g].cameAgain = true
		}
		countAgain(&r.Requeued.Pods, b.preempted, b.lost, b.evicted, b.cameAgain, outcome)
	}
	for i := range c.groups {
		g := &c.groups[i]
		g.Outcome = g.outcome(&tallies[i])
		if !g.isGang() {
			continue
		}
		r.Gangs.Add(g.Outcome)
		if g.waits && g.Complete {
			since := g.CompleteAt
			if g.Placed {
				since = g.fellAt
			}
			r.Waiting.Gangs.Add(c.lastActivity - since)
		}
		countAgain(&r.Requeued.Gangs, g.broken.preempted > 0, g.broken.lost > 0, g.broken.evicted > 0,
			tallies[i].cameAgain, g.Outcome)
	}
	r.Quotas, r.HeldDrains = c.quotas.refusals(), c.drains.held(c)
	return r
}

// countAgain counts a pod or a gang by its disruptions.
func countAgain(r *report.RequeuedCounts, preempted, lost, evicted, cameAgain bool, outcome report.Outcome) {
	completed := outcome == report.Completed
	if preempted {
		r.Preempted.Add(cameAgain, completed)
	}
	if lost {
		r.Lost.Add(cameAgain, completed)
	}
	if evicted {
		r.Evicted.Add(cameAgain, completed)
	}
}

// outcome returns the outcome of a planned pod.
func (c *Cluster) outcome(i int32) report.Outcome {
	p := &c.pods[i]
	switch p.phase {
	case planned:
		return report.NotArrived
	case pending:
		if c.befallen[i] != nil {
			return report.PendingAgain
		}
		return report.Pending
	case running:
		return report.Running
	}
	return p.ended // NotArrived if it never arrived
}

// isGang reports whether the workload, or a pod that came, asks for a minimum.
func (g *groupState) isGang() bool { return g.planned || g.counted }

// outcome returns the outcome of a group, from the outcomes of its planned pods.
//
// The outcome of a gang that lost its minimum is the cause, even if other members still run, until enough have come
// again. A group without a minimum has the outcome of one of its pods, preferring pods that may still do something.
func (g *groupState) outcome(pods *tally) report.Outcome {
	need, waiting := g.need, pods.Pending+pods.PendingAgain
	if !g.isGang() || need == 0 {
		need = max(1, pods.Total)
	}
	switch {
	case pods.NotArrived == pods.Total:
		return report.NotArrived
	case pods.Running == 0 && pods.Completed >= need:
		return report.Completed
	case pods.Running > 0 && (g.stands || !g.isGang()):
		return report.Running
	case !g.isGang() && waiting+pods.NotArrived > 0:
		return report.Pending
	case !g.Placed && waiting+pods.NotArrived > 0:
		return report.Pending
	case g.Placed && pods.PendingAgain > 0:
		return report.PendingAgain
	case g.cause != report.NotArrived:
		return g.cause
	case pods.Running > 0: // its minimum has grown
		return report.Running
	case waiting > 0:
		return report.Pending
	}
	return report.Completed
}
