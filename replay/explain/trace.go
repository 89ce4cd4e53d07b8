package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// addWholeTrace adds all that the cycle showed when it was run again, or why there is nothing to show. trace is nil if
// this program does not decide on the pod at that entry.
func (r *rerun) addWholeTrace(x *answer.Decision, rec recorded, trace *framework.Trace) {
	switch {
	case trace == nil:
		x.Untraced = "this program decides something else at this entry, so that the cycle cannot be run again: " +
			"see the note; the version that wrote the log can"
	case !trace.Searched:
		x.Untraced = r.withoutCycle(rec)
	default:
		nodes, _ := r.machine.Cluster().Nodes().List()
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Node().Name
		}
		x.Trace = traceOf(trace, names)
		x.Trace.Extenders = r.extendersOf(rec)
		if len(x.Trace.NotTried) > 0 {
			pod := r.machine.Cluster().Pods().Get(rec.decision.UID)
			x.Trace.NotTriedWhy = notTriedWhy(x, ofResize(pod, rec.decision))
		}
	}
}

// extendersOf returns the answers of HTTP extenders for the cycle of a decision, which is to be applied next.
func (r *rerun) extendersOf(rec recorded) (out []answer.ExtenderAnswer) {
	for _, q := range r.machine.ExtenderAnswers(rec.decision.UID) {
		for i := range q.Answers {
			a := &q.Answers[i]
			x := answer.ExtenderAnswer{Extender: r.machine.ExtenderName(a.Extender), Question: q.Decision,
				Nodes: q.Nodes, Scored: len(a.Scores), FilterError: a.FilterError, PrioritizeError: a.PrioritizeError,
				Candidates: q.Candidates, Left: len(a.Candidates), PreemptError: a.PreemptError}
			for k := range a.Refused {
				x.Refused += len(a.Refused[k].Nodes)
			}
			out = append(out, x)
		}
	}
	return out
}

// notTriedWhy says why plugins were not asked about some nodes.
func notTriedWhy(x *answer.Decision, resize bool) string {
	t := x.Trace
	switch {
	case resize:
		return "a resize is looked at on the pod's own node alone"
	case t.Failed != nil || x.Outcome == eventlog.Error.String() && len(t.Scored) == 0:
		return "a plugin failed"
	case x.NominatedTo != "" && len(t.Scored) == 1 && t.Scored[0].Node == x.NominatedTo:
		return "the node that the pod was nominated to took it"
	case len(t.Scored) == 0:
		return "the pod was refused as a whole"
	}
	return "enough others were feasible (percentageOfNodesToScore)"
}

// untraced says why a pod has no decision that could be traced, "" if it has one.
func untraced(x *answer.Pod) string {
	before := x.Created.Seq == 0 && x.KnownFrom > 0
	switch {
	case x.Decision != nil || x.StoppedBy != nil || x.Resize != nil && x.Resize.Decision != nil:
		return ""
	case x.Node != "" && before:
		return fmt.Sprintf("it had its node before entry %d, with which what is known begins: its cycle is not in "+
			"this log", x.KnownFrom)
	case x.Node != "":
		return "it came with its node: no cycle of this log gave it one"
	case before && x.Attempts > 0:
		return fmt.Sprintf("its attempts came before entry %d, with which what is known begins: their cycles are not "+
			"in this log", x.KnownFrom)
	}
	return "nothing has been decided on it up to this point"
}

// withoutCycle says why a decision, about to be applied, asked no plugin for a node.
func (r *rerun) withoutCycle(rec recorded) string {
	if p := r.machine.Cluster().Pods().Get(rec.decision.UID); p != nil && p.Stage == cluster.Waiting {
		return "the decision ends the wait of a pod that Permit held: no plugin was asked for a node; " +
			"ask for an earlier entry to see the cycle that found the node"
	}
	return "the pod was refused before any plugin was asked: the decision's refusals say why"
}

// traceOf is the trace with its nodes, of these names.
func traceOf(t *framework.Trace, nodes []string) *answer.Trace {
	x := &answer.Trace{
		Filters: t.Filters, SkippedFilters: t.SkippedFilters, PreScore: answersOf(t.PreScore),
		SkippedScores: t.SkippedScores, PostFilter: answersOf(t.PostFilter), Reserve: answersOf(t.Reserve),
		Permit: answersOf(t.Permit),
	}
	for _, a := range t.PreFilter {
		x.PreFilter = append(x.PreFilter, answer.PreFilterAnswer{PluginAnswer: answerOf(a.Answer), AllNodes: a.AllNodes,
			Nodes: a.Nodes})
	}
	tried := make(map[string]bool, len(nodes))
	refused := func(point string, refusals []framework.NodeRefusal) {
		for _, n := range refusals {
			tried[n.Node] = true
			x.Refused = append(x.Refused, answer.NodeRefusal{Node: n.Node, Point: point,
				PluginAnswer: answerOf(n.Answer)})
		}
	}
	refused("PreFilter", t.LeftOut)
	refused("Filter", t.Refused)
	for i := range x.Refused {
		if x.Refused[i].Plugin == framework.ExtenderName {
			x.Refused[i].Point = framework.ExtenderName
		}
	}
	slices.SortStableFunc(x.Refused, func(a, b answer.NodeRefusal) int { return cmp.Compare(a.Node, b.Node) })
	if f := t.Failed; f != nil {
		x.Failed = &answer.NodeFailure{Point: f.Point, Node: f.Node, PluginAnswer: answerOf(f.Answer)}
		tried[f.Node] = true
	} else {
		for _, n := range t.Scored {
			x.Scored = append(x.Scored, scoreOf(n))
		}
	}
	for _, name := range t.Feasible {
		tried[name] = true
	}
	if len(x.Scored) == 0 {
		x.Unscored = t.Feasible
	}
	for _, name := range nodes {
		if !tried[name] {
			x.NotTried = append(x.NotTried, name)
		}
	}
	return x
}

func answersOf(answers []framework.Answer) []answer.PluginAnswer {
	var out []answer.PluginAnswer
	for _, a := range answers {
		out = append(out, answerOf(a))
	}
	return out
}

func answerOf(a framework.Answer) answer.PluginAnswer {
	x := answer.PluginAnswer{Plugin: a.Plugin, Code: a.Code, Words: a.Reasons}
	if a.Timeout > 0 {
		x.Timeout = a.Timeout.String()
	}
	return x
}
