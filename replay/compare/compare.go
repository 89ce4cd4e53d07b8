package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// Log is one of the two logs.
type Log struct {
	// Name is the path or URL of the log.
	Name string
	Log  *history.Log
	// First and Last are the first and the last entry to compare. A state before First is part of the inputs.
	First, Last uint64
}

// Options limit what a Report keeps.
type Options struct {
	// Show is the number of gangs, of pods, of inputs and of settings that the report names. All are counted.
	Show int
	// Progress is called now and then, with the number of entries that have been read of all; nil for nobody.
	Progress func(read, all uint64)
}

// progressEvery is the number of entries between two calls of Progress.
const progressEvery = 10_000

// Logs reads two logs and says how they differ. Errors name the log and the entry.
func Logs(ctx context.Context, a, b Log, o Options) (*Report, error) {
	c := &comparison{Options: o, a: newSide(a), b: newSide(b)}
	for _, s := range []*side{c.a, c.b} {
		if err := s.begin(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		defer s.stop()
	}
	c.relative = c.a.first.Time != c.b.first.Time
	for !c.a.over || !c.b.over {
		s := c.a
		if c.a.over || !c.b.over && c.b.read < c.a.read {
			s = c.b
		}
		if err := s.step(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := c.match(); err != nil {
			return nil, err
		}
		if read := c.a.read + c.b.read; o.Progress != nil && read%progressEvery == 0 {
			o.Progress(read, a.Last-a.First+b.Last-b.First+2)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return c.report()
}

// comparison is a comparison under way.
type comparison struct {
	Options
	a, b     *side
	relative bool // times count from the first entries

	same     uint64 // decisions
	decision *DecisionDifference
	input    *InputDifference // the first one
}

// match compares the inputs and decisions that both sides have read.
func (c *comparison) match() error {
	for c.input == nil && c.comparable(len(c.a.inputs), len(c.b.inputs)) {
		c.input = c.differentInput(first(c.a.inputs), first(c.b.inputs))
		if c.input == nil {
			c.a.inputs, c.b.inputs = c.a.inputs[1:], c.b.inputs[1:]
		}
	}
	if c.input != nil {
		c.a.dropInputs()
		c.b.dropInputs()
	}
	for c.decision == nil && c.comparable(len(c.a.decisions), len(c.b.decisions)) {
		different, err := c.differentDecision(first(c.a.decisions), first(c.b.decisions))
		if err != nil {
			return err
		}
		if c.decision = different; different == nil {
			c.same++
			c.a.decisions, c.b.decisions = c.a.decisions[1:], c.b.decisions[1:]
		}
	}
	if c.decision != nil {
		c.a.dropDecisions()
		c.b.dropDecisions()
	}
	return nil
}

// comparable reports whether the next ones of both sides are known, of which so many have been read.
func (c *comparison) comparable(a, b int) bool {
	return a+b > 0 && (a > 0 || c.a.over) && (b > 0 || c.b.over)
}

// first returns the first element, nil if there is none.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// differentInput returns the difference of two inputs, nil if they are the same. One of them may be nil.
func (c *comparison) differentInput(a, b *input) *InputDifference {
	if a != nil && b != nil && a.what == b.what && a.content == b.content && c.a.timeOf(a.at, c.relative) ==
		c.b.timeOf(b.at, c.relative) {
		return nil
	}
	return &InputDifference{A: a.told(), B: b.told()}
}

// timeOf returns a time as it is compared.
func (s *side) timeOf(p answer.Point, relative bool) int64 {
	if relative {
		return eventlog.Time(p.Time).Sub(eventlog.Time(s.first.Time)).Nanoseconds()
	}
	return int64(p.Time)
}

var errEmpty = errors.New("the log has no entry")
