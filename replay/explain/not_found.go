package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// ErrNotFound is what a *NotFoundError is.
var ErrNotFound = errors.New("not found in the log")

// NotFoundError says that no entry up to the point in question has what was asked for.
type NotFoundError struct {
	// Kind is pod or group, Name its namespace/name.
	Kind, Name string
	// At is the point in question: the last entry read.
	At answer.Point
	// First is where it first appears after that point; nil if it never does.
	First *answer.Point
	// Similar are the names nearest to it, sorted, at most 5.
	Similar []string
	// Composite says that there is a CompositePodGroup of that name, or gangs that name one: see func Composite.
	Composite bool
	// KnownFrom is the first entry of which the log tells, 0 if that is the first there was.
	KnownFrom uint64
}

// Error implements error.
func (e *NotFoundError) Error() string {
	if e.Composite {
		return fmt.Sprintf("%s is a CompositePodGroup, and no gang itself", e.Name)
	}
	if e.First != nil {
		return fmt.Sprintf("%s %s did not exist yet at %s: it first appears at %s", e.Kind, e.Name, e.At, e.First)
	}
	msg := fmt.Sprintf("%s %s is not in the log up to %s", e.Kind, e.Name, e.At)
	if e.KnownFrom > 0 {
		msg += fmt.Sprintf("; what is known of it begins with entry %d", e.KnownFrom)
	}
	if len(e.Similar) > 0 {
		msg += "; did you mean " + strings.Join(e.Similar, ", ") + "?"
	}
	return msg
}

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// recentNames is how many entries before the point in question are searched for names like the missing one, where the
// log has an index. The names of the state before them are searched too. Reading so many takes a third of a second.
const recentNames = 200_000

// missing returns the error for a name that no entry up to the point in question has. The scanner was handed the
// selected ones.
func (r *reading) missing(s scanner) error {
	missing := s.missing()
	if missing.Composite && !r.Whole() {
		return history.ErrTooNarrow
	}
	missing.At, missing.KnownFrom = r.point(), r.knownFrom()
	for e, err := range r.Behind(r.ctx, s.key()) {
		if err != nil {
			return err
		}
		if s.take(e); s.found() {
			first := pointOf(e)
			missing.First = &first
			return missing
		}
	}
	if r.Whole() {
		return missing
	}
	again := s.again()
	if err := r.lookForNames(again); err != nil {
		return err
	}
	missing.Similar = again.missing().Similar
	return missing
}

// lookForNames hands a scanner the newest state that is recentNames entries before the point in question, or the first
// one, and all entries from there on.
func (r *reading) lookForNames(s scanner) error {
	at := r.At().Seq
	m, err := r.log.Nearest(at - min(at, r.opts.recentNames()))
	if err != nil {
		return err
	}
	if m.Seq() > 0 {
		s.startFrom(m)
	}
	if m.Seq() >= at {
		return nil
	}
	between := history.Query{From: m.Seq() + 1, To: history.Bound{Seq: at}}
	for e, err := range r.log.Entries(r.ctx, between) {
		if err != nil {
			return err
		}
		s.take(e)
	}
	return nil
}
