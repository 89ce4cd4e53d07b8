package scheduler

import (
	"bytes"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// A state of up to smallState pods and nodes is checked at every decision, a larger one at every checkEvery-th cycle,
// because a check costs a digest of the whole state.
const (
	smallState = 64
	checkEvery = 499
)

// decideChecked decides twice, the second time without memos, and panics if the answers differ or the state changed.
func (m *Machine) decideChecked(trace *framework.Trace) (eventlog.Decision, bool) {
	nodes, _ := m.cluster.Nodes().List()
	if m.cluster.Pods().Len()+len(nodes) > smallState && m.at.cycle%checkEvery != 0 {
		return m.decide(trace)
	}
	before := m.Hash()
	d, ok := m.decide(trace)
	m.unpick()
	m.waits.forgetMemos()
	m.backfill.ForgetMemos()
	var again eventlog.Decision
	var okAgain bool
	m.queue.WithoutMemos(func() {
		m.pick()
		m.recorded.muting(func() { again, okAgain = m.decide(nil) })
	})
	if after := m.Hash(); after != before {
		panic(fmt.Sprintf("deciding cycle %d changed the state: its hash was %x and is %x", d.Cycle, before, after))
	}
	if ok != okAgain || ok && !bytes.Equal(m.at.encode(&d), m.at.encode(&again)) {
		panic(fmt.Sprintf("asked twice, cycle %d is decided in two ways:\n%+v (%v)\n%+v (%v)",
			d.Cycle, d, ok, again, okAgain))
	}
	return d, ok
}

func (at position) encode(d *eventlog.Decision) []byte {
	e := eventlog.Entry{Seq: at.seq + 1, Epoch: at.epoch, Time: at.now, Payload: d}
	b, err := eventlog.AppendRecord(nil, e, [32]byte{})
	if err != nil {
		panic(fmt.Sprintf("encode decision %+v: %v", d, err))
	}
	return b
}

// searchGuard panics if Apply searches. Apply takes results from the Decision, so that a later version with a better
// search recovers the same state. The guard is active with the build tag invariants only.
type searchGuard struct{ applying bool }

// check is called at the start of each search: for a gang's domain, for the first entity of a lane that room can help,
// and for entities that have room.
func (g *searchGuard) check(what string) {
	if invariants && g.applying {
		panic("Apply searches for " + what)
	}
}
