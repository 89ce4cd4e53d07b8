package scheduler

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
)

// TestUnwantedLooksAtNothingButEvictionsThatMakeRoom bounds what it allocates while many binds are outstanding: it is
// asked after each step.
func TestUnwantedLooksAtNothingButEvictionsThatMakeRoom(t *testing.T) {
	m := New(plugins.NewRegistry())
	uid := func(i int) types.UID { return types.UID(fmt.Sprint("uid-", i)) }
	const binds = 10000
	for i := range binds {
		m.effects.add(Effect{Kind: Bind, Seq: uint64(i + 1), UID: uid(i)})
	}
	preemptors := []eventlog.Nomination{{UID: "gone", Node: "n1"}}
	for seq := uint64(binds + 2); seq > binds; seq-- {
		p := &displacement{preemptors: preemptors}
		for i := range 2 {
			victim := types.UID(fmt.Sprint("victim-", seq, "-", i))
			p.left, p.unanswered = p.left+1, append(p.unanswered, victim)
			m.effects.add(Effect{Kind: Evict, Seq: seq, UID: victim})
		}
		m.effects.preemptions[seq] = p
	}
	m.effects.preemptions[binds+1].answer("victim-10001-0")
	var got []Effect
	allocs := testing.AllocsPerRun(10, func() { got = m.Unwanted() })
	if len(got) != 3 || got[0].UID != "victim-10001-1" || got[1].UID != "victim-10002-0" ||
		got[2].UID != "victim-10002-1" {
		t.Errorf("unwanted: %v", got)
	}
	if allocs > 8 {
		t.Errorf("%v allocations beside %d binds, want at most 8", allocs, binds)
	}
}
