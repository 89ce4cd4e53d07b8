package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
)

// maxGap is the most that the time between two neighbouring entries counts for their age. A clock that is set far
// ahead looks like a scheduler that did not run for as long: no entry is removed because of it. The price is that
// entries before a real pause of more than a day are kept for longer.
const maxGap = 24 * time.Hour

// Leap is a place in a log where the time jumps by more than a day from one entry to the next.
type Leap struct {
	// Seq is the entry after it.
	Seq uint64 `json:"seq"`
	// By is the length of the jump.
	By time.Duration `json:"by"`
}

// instant is the time of an entry.
type instant struct {
	seq uint64
	at  eventlog.Time
}

// leapsBetween returns the leaps between two entries, in order. at returns the time of an entry; times never go back.
// So a part of the log that takes at most maxGap has none, and is not examined.
func leapsBetween(at func(uint64) (eventlog.Time, error), from, to instant) ([]Leap, error) {
	passed := to.at.Sub(from.at)
	switch {
	case passed <= maxGap && passed >= 0:
		return nil, nil
	case to.seq == from.seq+1:
		return []Leap{{Seq: to.seq, By: passed}}, nil
	}
	middle := instant{seq: from.seq + (to.seq-from.seq)/2}
	var err error
	if middle.at, err = at(middle.seq); err != nil {
		return nil, err
	}
	before, err := leapsBetween(at, from, middle)
	if err != nil {
		return nil, err
	}
	behind, err := leapsBetween(at, middle, to)
	return append(before, behind...), err
}

// ages has the ages of entries at the time of the last one, by their own times.
type ages struct {
	last  instant
	leaps []Leap
}

// of returns the age of an entry, in which each later leap counts as maxGap.
func (a *ages) of(e instant) time.Duration {
	age := a.last.at.Sub(e.at)
	for _, leap := range a.leaps {
		if leap.Seq > e.seq {
			age -= leap.By - maxGap
		}
	}
	return age
}

// agesIn reads the ages of the entries from first on.
func agesIn(ctx context.Context, log *logs.Source, first uint64) (*ages, error) {
	at := func(seq uint64) (eventlog.Time, error) { return timeOf(ctx, log, seq) }
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	from, to := instant{seq: first}, instant{seq: last}
	if from.at, err = at(first); err != nil {
		return nil, err
	}
	if to.at, err = at(last); err != nil {
		return nil, err
	}
	leaps, err := leapsBetween(at, from, to)
	return &ages{to, leaps}, err
}

// timeOf returns the time of an entry.
func timeOf(ctx context.Context, log *logs.Source, seq uint64) (eventlog.Time, error) {
	for e, err := range log.Read(ctx, seq) {
		return e.Time, err
	}
	return 0, fmt.Errorf("entry %d is not in the log", seq)
}
