package report

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

// Times are the times of a job's events: a group's, or a pod's without a group. They are offsets, and each counts only
// if the bool of its name is set.
type Times struct {
	Submitted, CompleteAt, PlacedAt, EndedAt time.Duration
	Complete, Placed, Ended                  bool
	Outcome                                  Outcome
	Attempts, Priority                       int32
	*Disruptions                             // nil if there was none
}

// Disrupted returns the job's disruptions, to be added to.
func (t *Times) Disrupted() *Disruptions {
	if t.Disruptions == nil {
		t.Disruptions = &Disruptions{}
	}
	return t.Disruptions
}

// Row is the outcome of one group, or of one pod without a group.
type Row struct {
	// Name is namespace/name, as in the workload.
	Name string
	// Pods is the number of its pods that arrived. A pod that came again counts once.
	Pods int
	// Submitted is the arrival of the first of them, and Complete the time at which enough for its minimum had
	// arrived. Placed is the time at which enough were on nodes for the first time. Finished is the end of the last
	// pod of a job that completed, and Ended the end of the last pod of any job.
	Submitted, Complete, Placed, Finished, Ended Time
	// Attempts is the number of times that the scheduler began to place it, together with the gangs admitted with it.
	Attempts int
	// Outcome is its outcome.
	Outcome Outcome
	// Priority is the last priority that the scheduler gave it.
	Priority int32
	Disruptions
}

// Time is an offset from the start of the simulation, or the zero value for an event that did not happen.
type Time struct {
	Offset   time.Duration
	Happened bool
}

// String is the offset in seconds, with as many decimals as it has; "" for an event that did not happen.
func (t Time) String() string {
	if !t.Happened {
		return ""
	}
	text := strconv.FormatInt(int64(t.Offset/time.Second), 10)
	if rest := t.Offset % time.Second; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
	}
	return text
}

// Row returns the row of a job of that name. pods of its pods have arrived.
func (t *Times) Row(name string, pods int) Row {
	r := Row{
		Name: name, Pods: pods, Submitted: Time{t.Submitted, true}, Complete: Time{t.CompleteAt, t.Complete},
		Placed:   Time{t.PlacedAt, t.Placed},
		Finished: Time{t.EndedAt, t.Ended && t.Outcome == Completed}, Ended: Time{t.EndedAt, t.Ended},
		Attempts: int(t.Attempts), Outcome: t.Outcome, Priority: t.Priority,
	}
	if t.Disruptions != nil {
		r.Disruptions = *t.Disruptions
	}
	return r
}

// SortRows sorts rows by the time of submission, then by name. Rows that agree in both keep their order.
func SortRows(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Submitted.Offset, b.Submitted.Offset), strings.Compare(a.Name, b.Name))
	})
}

// WriteRows writes the rows as CSV below a line with the columns' names. Times are seconds from the start.
func WriteRows(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"name", "pods", "submitted", "complete", "placed", "finished", "attempts",
		"outcome", "ended", "priority", "preempted", "lost", "evicted", "came_again", "preempted_by",
		"gpu_seconds_lost",
	})
	for _, r := range rows {
		_ = out.Write([]string{
			r.Name, strconv.Itoa(r.Pods), r.Submitted.String(), r.Complete.String(), r.Placed.String(),
			r.Finished.String(), strconv.Itoa(r.Attempts),
			r.Outcome.String(), r.Ended.String(), strconv.Itoa(int(r.Priority)), strconv.Itoa(r.Preempted),
			strconv.Itoa(r.Lost), strconv.Itoa(r.Evicted), strconv.Itoa(r.CameAgain), strings.Join(r.By, " "),
			strconv.FormatFloat(r.GPUSeconds, 'f', -1, 64),
		})
	}
	out.Flush()
	return out.Error() // of the write that failed
}
