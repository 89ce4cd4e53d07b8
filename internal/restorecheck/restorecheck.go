// Package restorecheck is for tests: it plays entries to a scheduler.Machine and restores other Machines from its state
// on the way. It fails as soon as one of them differs from the original in any answer.
//
// It never reads unexported state, and makes no entries: those come from a history or a transcript that was decided
// before. Start reading at Check.Play; the compared answers are in answers.go.
package restorecheck

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Check is an original Machine and the Machines that were restored from its state. All of them take the same entries.
type Check struct {
	registry framework.Registry
	fatalf   func(format string, args ...any)
	original *scheduler.Machine
	restored []*scheduler.Machine
	from     []uint64 // restored[i] was made of the state after entry from[i]
	answers  []string // of the original after its last entry
	state    []byte
}

// New returns a Check whose original has no entries yet. It reports a difference by fatalf, which must not return.
func New(registry framework.Registry, fatalf func(format string, args ...any)) *Check {
	return &Check{registry: registry, fatalf: fatalf, original: scheduler.New(registry)}
}

// Apply takes the next entry to all Machines and compares them.
func (c *Check) Apply(e eventlog.Entry) {
	if err := c.original.Apply(e); err != nil {
		c.fatalf("%v", err)
	}
	c.answers = answers(c.original)
	hash := c.original.Hash()
	for i, m := range c.restored {
		if err := m.Apply(e); err != nil {
			c.fatalf("restored after entry %d: %v", c.from[i], err)
		}
		c.compare(m, c.from[i])
		if m.Hash() != hash {
			c.fatalf("after entry %d the Machine restored after entry %d has another hash", e.Seq, c.from[i])
		}
	}
}

// Kept returns how many restored Machines take part.
func (c *Check) Kept() int { return len(c.restored) }

// Play takes the entries in, restores after each one whose place is a multiple of every, and keeps one in stride of
// these Machines to the end. Decisions must equal the decisions of the original.
func (c *Check) Play(entries []eventlog.Entry, every, stride int) {
	var rec []byte
	for i, e := range entries {
		// The entry is decoded again, as from a log: machines must not share objects by accident.
		var err error
		rec, err = eventlog.AppendRecord(rec[:0], e, [32]byte{})
		if err != nil {
			c.fatalf("%v", err)
		}
		read, _, err := eventlog.DecodeRecord(rec)
		if err != nil {
			c.fatalf("%v", err)
		}
		if d, ok := read.Payload.(*eventlog.Decision); ok {
			decided, ok := c.original.Decide(nil)
			if !ok || fmt.Sprintf("%+v", decided) != fmt.Sprintf("%+v", *d) {
				c.fatalf("entry %d is decided as %+v, recorded %+v", e.Seq, decided, *d)
			}
		}
		c.Apply(read)
		if i%every == 0 {
			c.restore(i/every%stride == 0)
		}
	}
}

// restore encodes the original and makes a Machine of that, which takes part from now on if it is to be kept.
func (c *Check) restore(keep bool) {
	var err error
	if c.state, err = c.original.AppendState(c.state[:0]); err != nil {
		c.fatalf("%v", err)
	}
	seq := c.original.Seq()
	m, err := scheduler.Restore(c.registry, c.state)
	if err != nil {
		c.fatalf("after entry %d: %v", seq, err)
	}
	c.compare(m, seq)
	if keep {
		c.restored, c.from = append(c.restored, m), append(c.from, seq)
	}
}

func (c *Check) compare(m *scheduler.Machine, from uint64) {
	if got := answers(m); !slices.Equal(got, c.answers) {
		c.fatalf("after entry %d the Machine restored after entry %d differs (- original, + restored):\n%s",
			m.Seq(), from, cmp.Diff(c.answers, got))
	}
}
