package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// failure is the reason why an attempt failed; the zero value is none.
type failure struct {
	recorded
	code answer.Code
	// together means, for LacksRoom, that all gangs that are admitted together lack the room. asked means that the
	// PodGroup asks for it.
	together bool
	gang     types.NamespacedName
	pod      string
	until    eventlog.Time      // of PermitTimedOut: the deadline
	short    cluster.Shortfall  // of LacksRoom
	room     answer.ResourceUse // for LacksRoom: the use, with the kept part; its holders are not counted
	bind     *answer.Bind       // of BindFailed
	by       *answer.Preemption // of BrokenOff: what it gave way to; nil for something else
}

func (f *failure) known() bool { return f.code != "" }

// judge finds the reason why the attempt failed; p is the pod of the decision before it.
func (f *failure) judge(m *scheduler.Machine, p *cluster.Pod) {
	d := f.decision
	f.code = answer.Unplaceable
	switch {
	case p.Stage == cluster.Waiting:
		f.code = answer.BrokenOff
		if w, ok := m.WaitingPods().Get(d.UID); ok && w.Until <= m.Now() {
			f.code, f.until = answer.PermitTimedOut, w.Until
		}
	case d.Outcome == eventlog.Error:
		f.code = answer.PluginFailed
	case d.Evaluated == 0 && blames(d, gangPlugin):
		if short, lacks := m.Cluster().Lacks(p.Group); lacks {
			f.lacksRoom(m, short, p.Group)
		} else if c := p.Group.Composite(); c != nil {
			if short, lacks := m.Cluster().LacksTogether(c); lacks {
				f.lacksRoom(m, short, c.Gangs()...)
				f.together = true
			}
		}
	}
}

// lacksRoom notes what all nodes together have too little of for gangs.
func (f *failure) lacksRoom(m *scheduler.Machine, short cluster.Shortfall, gangs ...*cluster.Group) {
	f.code, f.short = answer.LacksRoom, short
	use := &f.room
	*use = answer.ResourceUse{Resource: short.Resource, Needed: short.Needed, Free: short.Free}
	if kept := keptFromGang(m, gangs...); !kept.nothing() {
		keepers := holders{}
		nodes, _ := m.Cluster().Nodes().List()
		for _, n := range nodes {
			allocatable, requested := cluster.AmountOn(n, short.Resource)
			use.Kept += kept.on(n, short.Resource, max(0, allocatable-requested), keepers)
		}
		use.Free -= use.Kept
		use.KeptFor, use.KeptForOthers, use.KeptForOthersAmount = keepers.ranked()
	}
	use.Usable, use.OnTaking = use.Free, use.Free
}

// blames says whether the plugin refused the pod as a whole.
func blames(d *eventlog.Decision, plugin string) bool {
	return slices.ContainsFunc(d.Rejections, func(r eventlog.Rejection) bool {
		return r.Plugin == plugin &&
			r.Nodes == 0
	})
}

// inShort is a failure in a few words, for the row of an attempt.
func (f *failure) inShort() string {
	switch f.code {
	case answer.LacksRoom:
		return fmt.Sprintf("%s %s needed, %s free%s", phrase.Amount(f.room.Resource, f.room.Needed), f.room.Resource,
			phrase.Amount(f.room.Resource, f.room.Free), phrase.KeptRoom(&f.room))
	case answer.PermitTimedOut:
		return "held until its deadline"
	case "", answer.BindFailed:
		return ""
	}
	if f.by != nil {
		return "preempted by " + phrase.Preemptor(&f.by.By)
	}
	refusals := ownRefusals(refusalsOf(f.decision.Rejections))
	if len(refusals) > 0 && f.code == answer.PluginFailed {
		return refusals[0].Plugin + " failed"
	}
	return phrase.Refusals(refusals)
}

const gangPlugin = coscheduling.Name
