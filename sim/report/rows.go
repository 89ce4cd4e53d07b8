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

// Times are when what happened to a job: a group, or a pod of no group. They are offsets, and each counts only if the
// bool of its name is set.
type Times struct {
	Submitted, CompleteAt, PlacedAt, EndedAt time.Duration
	Complete, Placed, Ended                  bool
	Outcome                                  Outcome
	Attempts, Priority                       int32
	*Setbacks                                // nil if there was none
}

// SetBack returns the job's setbacks, to be added to.
func (t *Times) SetBack() *Setbacks {
	if t.Setbacks == nil {
		t.Setbacks = &Setbacks{}
	}
	return t.Setbacks
}

// Row is the outcome of one group, or of one pod of no group.
type Row struct {
	// Name is namespace/name, as the workload has it.
	Name string
	// Pods is how many of its pods arrived; those that came again count once.
	Pods int
	// Submitted is the time at which the first of them did; Complete when as many were there as its minimum asks for;
	// Placed when as many were on nodes for the first time; Finished when the last one was gone of a job that
	// completed; Ended when the last one was gone, however it went.
	Submitted, Complete, Placed, Finished, Ended Time
	// Attempts is the number of times that the scheduler began to place it, with the gangs that are admitted with it
	// if there are such.
	Attempts int
	// Outcome is what became of it.
	Outcome Outcome
	// Priority is that which the scheduler gave it last.
	Priority int32
	Setbacks
}

// Time is an offset from the start of the simulation, or the zero value for what did not happen.
type Time struct {
	Offset   time.Duration
	Happened bool
}

// String is the offset in seconds, with as many decimals as it has; "" for what did not happen.
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

// Row returns the row of a job of that name, of which so many pods have arrived.
func (t *Times) Row(name string, pods int) Row {
	r := Row{
		Name: name, Pods: pods, Submitted: Time{t.Submitted, true}, Complete: Time{t.CompleteAt, t.Complete},
		Placed:   Time{t.PlacedAt, t.Placed},
		Finished: Time{t.EndedAt, t.Ended && t.Outcome == Completed}, Ended: Time{t.EndedAt, t.Ended},
		Attempts: int(t.Attempts), Outcome: t.Outcome, Priority: t.Priority,
	}
	if t.Setbacks != nil {
		r.Setbacks = *t.Setbacks
	}
	return r
}

// SortRows sorts rows in the order in which the jobs were submitted, by name where that is the same. Rows that agree in
// both keep their order.
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
	return out.Error() // of whichever write failed
}
