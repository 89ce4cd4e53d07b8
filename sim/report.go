package sim

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// jobTimes are when what happened to a job: a group, or a pod of no group. Times are offsets, and each counts only
// if the bool of its name is set.
type jobTimes struct {
	submitted, completeAt, placedAt, finishedAt time.Duration
	complete, placed, finished                  bool
	attempts                                    int32
}

// ReportRow is what came of one group, or of one pod of no group.
type ReportRow struct {
	// Name is namespace/name.
	Name string
	// Pods is how many of its pods arrived.
	Pods int
	// Submitted is when the first of them did; Complete when as many were there as its minimum asks for; Placed when
	// as many were on nodes; Finished when the last one was gone, however it went.
	Submitted, Complete, Placed, Finished ReportTime
	// Attempts is how often the scheduler began to place it, with the gangs that are admitted with it if there are
	// such.
	Attempts int
}

// ReportTime is an offset from Start, or the zero value for what did not happen.
type ReportTime struct {
	Offset   time.Duration
	Happened bool
}

// String is the offset in seconds, with as many decimals as it has; "" for what did not happen.
func (t ReportTime) String() string {
	if !t.Happened {
		return ""
	}
	text := strconv.FormatInt(int64(t.Offset/time.Second), 10)
	if rest := t.Offset % time.Second; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
	}
	return text
}

// Report returns a row for each group of which a pod has arrived, and, with Options.Singles, for each pod of no group that
// has: in the order in which they were submitted, by name where that is the same, groups before pods.
func (c *Cluster) Report() []ReportRow {
	var rows []ReportRow
	for i := range c.groups {
		if g := &c.groups[i]; g.arrived > 0 {
			rows = append(rows, g.row(g.name.String(), g.arrived))
		}
	}
	for i := range c.singles {
		if t := &c.singles[i]; t.complete {
			plan := &c.work.Pods[i]
			rows = append(rows, t.row(plan.Namespace+"/"+plan.Name, 1))
		}
	}
	slices.SortStableFunc(rows, func(a, b ReportRow) int {
		return cmp.Or(cmp.Compare(a.Submitted.Offset, b.Submitted.Offset), strings.Compare(a.Name, b.Name))
	})
	return rows
}

func (t *jobTimes) row(name string, pods int) ReportRow {
	return ReportRow{
		Name: name, Pods: pods, Submitted: ReportTime{t.submitted, true}, Complete: ReportTime{t.completeAt, t.complete},
		Placed: ReportTime{t.placedAt, t.placed}, Finished: ReportTime{t.finishedAt, t.finished}, Attempts: int(t.attempts),
	}
}

// WriteReport writes the rows as CSV below a line with the columns' names. Times are seconds from Start.
func WriteReport(w io.Writer, rows []ReportRow) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"name", "pods", "submitted", "complete", "placed", "finished", "attempts"})
	for _, r := range rows {
		_ = out.Write([]string{
			r.Name, strconv.Itoa(r.Pods), r.Submitted.String(), r.Complete.String(), r.Placed.String(), r.Finished.String(), strconv.Itoa(r.Attempts),
		})
	}
	out.Flush()
	return out.Error() // of whichever write failed
}

// enqueue notes that the pod will stand in the scheduler's queue once that is told of it.
func (c *Cluster) enqueue(p *podState) {
	p.queued = true
	if p.group >= 0 {
		c.groups[p.group].queued++
	}
}

// dequeue notes that it will not when the scheduler is told next, of its bind or its end. With the last pod of a group in
// its queue goes what it has counted.
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
		g.attempts += int32(c.view.GangAttempts(g.name.Namespace, g.name.Name))
	}
}

// countAttempts takes down the attempts at a pod of no group.
func (c *Cluster) countAttempts(i int32) {
	if c.singles != nil {
		plan := &c.work.Pods[i]
		c.singles[i].attempts = int32(c.view.PodAttempts(plan.Namespace, plan.Name))
	}
}

// countRest takes down the attempts at whatever still stands in the queue.
func (c *Cluster) countRest() {
	for i := range c.groups {
		if g := &c.groups[i]; g.queued > 0 {
			g.attempts += int32(c.view.GangAttempts(g.name.Namespace, g.name.Name))
		}
	}
	for i := range c.pods {
		if p := &c.pods[i]; p.queued && p.group < 0 {
			c.countAttempts(int32(i))
		}
	}
}

// finishGroup notes that the last pod of a group is gone.
func (c *Cluster) finishGroup(g *groupState) {
	g.finished, g.finishedAt = true, c.now
	if g.placed {
		c.stats.jobs.finish(g.placedAt-g.completeAt, c.now-g.placedAt)
	}
}

// single notes what happens to a pod of no group.
func (c *Cluster) single(i int32, note func(*jobTimes)) {
	if c.singles != nil && c.pods[i].group < 0 {
		note(&c.singles[i])
	}
}
