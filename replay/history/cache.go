package history

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A cache has the Machines that were asked for last, by entry. Nobody else has a pointer to them.
type cache struct {
	limit int
	kept  []*scheduler.Machine // the most recently used is the last
}

// has reports whether the state after an entry is kept.
func (c *cache) has(seq uint64) bool {
	return slices.ContainsFunc(c.kept, func(m *scheduler.Machine) bool { return m.Seq() == seq })
}

// newest returns the kept Machine with the newest state up to an entry; nil if there is none. It is to be cloned.
func (c *cache) newest(last uint64) *scheduler.Machine {
	best := -1
	for i, m := range c.kept {
		if m.Seq() <= last && (best < 0 || m.Seq() > c.kept[best].Seq()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	m := c.kept[best]
	c.kept = append(slices.Delete(c.kept, best, best+1), m)
	return m
}

// keep keeps a copy of a Machine. One with a plugin whose memory cannot be copied is not kept.
func (c *cache) keep(m *scheduler.Machine, registry framework.Registry) error {
	own, err := clone(m, registry)
	var forgetful *scheduler.NotStatefulError
	if errors.As(err, &forgetful) {
		return nil
	}
	if err != nil {
		return err
	}
	c.kept = append(c.kept, own)
	c.kept = c.kept[max(0, len(c.kept)-c.limit):]
	return nil
}

// clone returns a Machine with the state of m, as a snapshot of it would.
func clone(m *scheduler.Machine, registry framework.Registry) (*scheduler.Machine, error) {
	if m.Seq() == 0 {
		return scheduler.New(registry), nil
	}
	state, err := m.AppendState(nil)
	if err != nil {
		return nil, fmt.Errorf("copy the state after entry %d: %w", m.Seq(), err)
	}
	own, err := scheduler.Restore(registry, state)
	if err != nil {
		return nil, fmt.Errorf("copy the state after entry %d: %w", m.Seq(), err)
	}
	return own, nil
}
