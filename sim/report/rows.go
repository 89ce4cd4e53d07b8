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
	Submitted, CompleteAt, PlacedAt, FinishedAt time.Duration
	Complete, Placed, Finished                  bool
	Attempts                                    int32
}

// Row is what came of one group, or of one pod of no group.
type Row struct {
	// Name is namespace/name.
	Name string
	// Pods is how many of its pods arrived.
	Pods int
	// Submitted is when the first of them did; Complete when as many were there as its minimum asks for; Placed when
	// as many were on nodes; Finished when the last one was gone, however it went.
	Submitted, Complete, Placed, Finished Time
	// Attempts is how often the scheduler began to place it, with the gangs that are admitted with it if there are
	// such.
	Attempts int
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
	return Row{
		Name: name, Pods: pods, Submitted: Time{t.Submitted, true}, Complete: Time{t.CompleteAt, t.Complete},
		Placed: Time{t.PlacedAt, t.Placed}, Finished: Time{t.FinishedAt, t.Finished}, Attempts: int(t.Attempts),
	}
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
	_ = out.Write([]string{"name", "pods", "submitted", "complete", "placed", "finished", "attempts"})
	for _, r := range rows {
		_ = out.Write([]string{
			r.Name, strconv.Itoa(r.Pods), r.Submitted.String(), r.Complete.String(), r.Placed.String(),
			r.Finished.String(), strconv.Itoa(r.Attempts),
		})
	}
	out.Flush()
	return out.Error() // of whichever write failed
}
