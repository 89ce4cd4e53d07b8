package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
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
