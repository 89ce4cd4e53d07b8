package perfetto

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// A gangRun is a gang in one of its stages.
type gangRun struct {
	track int
	stage string // "" for none
	since eventlog.Time
	facts gangFacts
}

// gangFacts are the args of a gang's slice, as the stage began.
type gangFacts struct {
	First   uint64 `json:"firstEntry"`
	Minimum int    `json:"minimum"`
	Ready   int    `json:"ready"`
	Held    int    `json:"held"`
	Placed  int    `json:"placed"`
}

// stageOf returns the stage of a gang, with the words of "rollcall get gangs", and Held: members hold room at Permit.
func stageOf(g *cluster.Group) string {
	switch {
	case g == nil || len(g.Members()) == 0:
		return ""
	case !g.Declared():
		return "Undeclared"
	case g.Refusal() != "" && g.Placed() == 0:
		return "Refused"
	case g.Lacking(gang.Kept) <= 0:
		return "Placed"
	case g.Met():
		return "BelowMinimum"
	case g.Lacking(gang.Present) > 0:
		return "Incomplete"
	case g.Waiting() > 0:
		return "Held"
	}
	return "Pending"
}

// updateGang compares a gang with its run.
func (t *trace) updateGang(key types.NamespacedName) {
	g, run := t.m.Cluster().Gangs().Named(key.Namespace, key.Name), t.gangs[key]
	stage := stageOf(g)
	if run == nil && stage == "" || run != nil && run.stage == stage {
		return
	}
	if run == nil {
		run = &gangRun{track: len(t.gangs) + 1}
		t.gangs[key] = run
	}
	t.endStage(run)
	run.stage, run.since = stage, t.now
	if g != nil {
		run.facts = gangFacts{
			First: t.m.Seq(), Minimum: g.Min(), Ready: g.Ready(), Held: g.Waiting(), Placed: g.Placed(),
		}
	}
}

// endStage writes the slice of a stage. One that began at this instant has none.
func (t *trace) endStage(run *gangRun) {
	if run.stage != "" && t.now > run.since {
		t.slice(gangTracks, run.track, run.stage, "gang", run.since, t.now, run.facts)
	}
	run.stage = ""
}

// closeGangs ends the stages, and names the tracks of the gangs, by name.
func (t *trace) closeGangs() {
	for place, key := range sortedByName(t.gangs) {
		run := t.gangs[key]
		t.endStage(run)
		t.named(gangTracks, run.track, place+1, key.String())
	}
}
