package explain

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// The functions below judge one entry on the state before it, or one state. Package replay/events makes its events of
// them, so that a list of events has the words and codes of an explanation.

// LossOf names, on the state before an entry, the pods that lose their node with the entry because the node is lost. It
// returns nil if there are none. It ignores pods for which of returns false. The pods should belong to one gang, or to
// none: the answer names one.
func LossOf(m *scheduler.Machine, e eventlog.Entry, of func(*cluster.Pod) bool) *answer.NodeLoss {
	return lossOf(m, e, of)
}

// Disruption returns the reason of a pod's condition DisruptionTarget, "" for none.
func Disruption(pod *v1.Pod) string { return disruption(pod) }

// PreemptionOf tells the preemption that an entry decides, on the state before it; nil if it decides none.
func PreemptionOf(m *scheduler.Machine, e eventlog.Entry) *answer.Preemption {
	d, ok := e.Payload.(*eventlog.Decision)
	if !ok {
		return nil
	}
	return preemptionOf(m, pointOf(e), d, nil)
}

// WhyEvicted returns the reason in a decision of outcome Evicted.
func WhyEvicted(d *eventlog.Decision) string { return whyEvicted(d) }

// FailureOf returns, on the state before an entry, the code of the failure that the entry records, and the failure in a
// few words. The code is "" for an entry that records none. The failures are decisions that placed nothing and failed
// binds.
func FailureOf(m *scheduler.Machine, e eventlog.Entry) (code answer.Code, words string) {
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		f := failure{recorded: recorded{pointOf(e), p}}
		pod := m.Cluster().Pods().Get(p.UID)
		if !f.failed() || pod == nil || ofResize(pod, p) {
			return "", ""
		}
		f.judge(m, pod)
		if f.code == answer.Unplaceable {
			return f.code, mainRefusal(p.Rejections)
		}
		return f.code, f.inShort()
	case *eventlog.BindResult:
		pod := m.Cluster().Pods().Get(p.UID)
		failed := p.Outcome == eventlog.BindConflict || p.Outcome == eventlog.BindFailed
		late := p.Decision != 0 && p.Decision != m.AskedBy(p.UID, scheduler.Bind)
		if failed && !late && pod != nil && pod.Stage == cluster.Binding && pod.Node == p.Node {
			return answer.BindFailed, phrase.BindOutcome(bindOf(e, p))
		}
	}
	return "", ""
}

// mainRefusal returns the refusal of most nodes in words, and the number of the others. Preemption's refusal comes
// last: it follows from the others.
func mainRefusal(rejections []eventlog.Rejection) string {
	refusals := phrase.MergeRefusals(refusalsOf(rejections))
	slices.SortStableFunc(refusals, func(a, b answer.Refusal) int {
		return cmp.Compare(last(a.Plugin), last(b.Plugin))
	})
	if len(refusals) < 2 {
		return phrase.Refusals(refusals)
	}
	return fmt.Sprintf("%s and %s", phrase.Refusals(refusals[:1]),
		phrase.Count(int64(len(refusals)-1), "other reason", "other reasons"))
}

func last(plugin string) int {
	if plugin == names.DefaultPreemption {
		return 1
	}
	return 0
}

// A GangState is the part of a gang's state whose changes are milestones.
type GangState struct {
	// Declared: it has a PodGroup, or an annotation that replaces it. Complete: as many members as it needs are there.
	// Placed: its minimum is on nodes.
	Declared, Complete, Placed bool
	Priority                   int32
}

// StateOf returns the state of a gang, the zero value for one that is not there.
func StateOf(g *cluster.Group) GangState {
	if g == nil {
		return GangState{}
	}
	is := conditionOf(g)
	priority, _ := g.Priority()
	return GangState{Declared: is.declared, Complete: is.complete, Placed: is.placed, Priority: priority}
}

// KeptBack returns the code that says why a gang is not in the queue as one, or cannot be tried, with a few words. The
// code is "" for a gang that can be tried.
func KeptBack(m *scheduler.Machine, g *cluster.Group) (code answer.Code, words string) {
	h := &gangHistory{group: g.Key()}
	gated, _, foreign := m.Cluster().Gangs().KeptBack(g)
	if code = h.codeOfTerms(g); code == "" {
		code = h.codeOfMembers(m, g, gated, foreign)
	}
	switch code {
	case answer.Incomplete, answer.Gated:
		words = fmt.Sprintf("%d of %s are there", g.Count(gang.Present),
			phrase.Count(int64(g.Min()), "needed member", "needed members"))
		if gated > 0 {
			words += fmt.Sprintf(", %d gated", gated)
		}
	case answer.Refused:
		words = g.Refusal()
	case answer.HeldByPermit:
		code = ""
	}
	return code, words
}

// Learn adds the names that an entry tells about the pods for which of returns true: their UIDs and nodes, and the key
// under which the results of their evictions are.
func Learn(e eventlog.Entry, to *history.Names, of func(*v1.Pod) bool) { learn(e, to, of) }
