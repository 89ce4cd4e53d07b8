package explain

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// again runs the cycle of a recorded decision once more, with a trace, on the state just before it.
func (r *rerun) again(rec recorded) *answer.Decision {
	d := rec.decision
	trace := &framework.Trace{}
	decided, ok := r.machine.Decide(trace)
	diverged := divergence(rec, &decided, ok)
	if diverged != nil && (!ok || decided.UID != d.UID) {
		trace = nil // it is of another cycle
	}
	x := r.told(rec, trace)
	x.Diverged = diverged
	if r.opts.Trace {
		r.addWholeTrace(x, rec, trace)
	}
	return x
}

// told explains a decision on the state just before it, with the trace of its cycle; nil for a cycle that cannot be
// run.
func (r *rerun) told(rec recorded, trace *framework.Trace) *answer.Decision {
	d := rec.decision
	nodes, _ := r.machine.Cluster().Nodes().List()
	x := &answer.Decision{
		Point: rec.at, Cycle: d.Cycle, Pod: decidedPod(d), Outcome: d.Outcome.String(), Node: d.Node, Score: d.Score,
		Nodes: len(nodes), Evaluated: d.Evaluated, Feasible: d.Feasible, WaitUntil: answer.Instant(d.WaitUntil),
		Refusals: refusalsOf(d.Rejections), Allowed: len(d.Allowed), Released: len(d.Rejected),
		NominatedTo: r.machine.NominatedNode(d.UID), Nominated: d.Nominated, Evicted: len(d.Victims), Domain: d.Domain,
		Planned: answer.Planned{Plan: d.Plan.Result.String(), NextSearch: d.Plan.Next},
	}
	if d.Plan.Result == eventlog.PlanFound {
		for _, uid := range d.Rejected {
			if p := r.machine.Cluster().Pods().Get(uid); p != nil && p.Node == d.Nominated {
				x.PlanBlockers = append(x.PlanBlockers, nameOf(p.Object))
			}
		}
	}
	if trace != nil {
		r.addTrace(x, trace)
	}
	if rec.failed() {
		p := r.machine.Cluster().Pods().Get(d.UID)
		r.addResources(x, p, refusalIn(trace, p))
	}
	return x
}

// divergence compares a recorded decision with the one that is made now; nil if they are equal.
func divergence(rec recorded, decided *eventlog.Decision, ok bool) *replay.Divergence {
	if !ok {
		decided = nil
	}
	return replay.Compare(rec.at.Seq, rec.decision, decided)
}

func refusalsOf(rejections []eventlog.Rejection) []answer.Refusal {
	var out []answer.Refusal
	for _, r := range rejections {
		out = append(out, answer.Refusal{Plugin: r.Plugin, Code: r.Code, Reason: r.Reason, Nodes: r.Nodes})
	}
	return out
}

// addTrace adds what the cycle showed when it was run again: nodes for the refusals, and scores.
func (r *rerun) addTrace(x *answer.Decision, trace *framework.Trace) {
	for i := range x.Refusals {
		refusal := &x.Refusals[i]
		switch {
		case refusal.Nodes > 0:
			refusal.Examples = r.examples(refusal, trace)
		case refusal.Reason == "" && refusal.Code == "Error":
			refusal.Reason = errorWords(refusal.Plugin, trace)
		}
	}
	chosen := slices.IndexFunc(trace.Scored, func(n framework.ScoredNode) bool { return n.Node == x.Node })
	if chosen < 0 {
		return
	}
	winner := scoreOf(trace.Scored[chosen])
	x.Winner = &winner
	for i, n := range trace.Scored {
		if i != chosen && len(x.RunnersUp) < r.opts.runnersUp() {
			x.RunnersUp = append(x.RunnersUp, scoreOf(n))
		}
	}
}

// examples returns the first nodes that were refused as the refusal says.
func (r *rerun) examples(refusal *answer.Refusal, trace *framework.Trace) (nodes []string) {
	for _, n := range trace.Refused {
		if n.Plugin != refusal.Plugin || n.Code != refusal.Code ||
			refusal.Reason != "" && !slices.Contains(n.Reasons, refusal.Reason) {
			continue
		}
		if nodes = append(nodes, n.Node); len(nodes) == answer.MaxExamples {
			return nodes
		}
	}
	if len(nodes) > 0 {
		return nodes
	}
	// A PreFilter plugin names the nodes that it leaves; it refused the others.
	all, _ := r.machine.Cluster().Nodes().List()
	for _, step := range trace.PreFilter {
		if step.Plugin != refusal.Plugin || step.AllNodes {
			continue
		}
		for _, n := range all {
			name := n.Node().Name
			if _, left := slices.BinarySearch(step.Nodes, name); left {
				continue
			}
			if nodes = append(nodes, name); len(nodes) == answer.MaxExamples {
				return nodes
			}
		}
	}
	return nodes
}

// errorWords returns the plugin's error: the log does not record it.
func errorWords(plugin string, trace *framework.Trace) string {
	var answers []framework.Answer
	for _, s := range trace.PreFilter {
		answers = append(answers, s.Answer)
	}
	for _, n := range trace.Refused {
		answers = append(answers, n.Answer)
	}
	if trace.Failed != nil {
		answers = append(answers, trace.Failed.Answer)
	}
	for _, s := range slices.Concat(answers, trace.PreScore, trace.Reserve, trace.Permit, trace.PostFilter) {
		if s.Plugin == plugin && s.Code == "Error" && len(s.Reasons) > 0 {
			return s.Reasons[0]
		}
	}
	return ""
}

func scoreOf(n framework.ScoredNode) answer.NodeScore {
	out := answer.NodeScore{Node: n.Node, Total: n.Total}
	for _, p := range n.Plugins {
		out.Plugins = append(out.Plugins, answer.PluginScore(p))
	}
	return out
}

// addResources adds the holders of the resources that the pod, and its gang, lacked.
func (r *rerun) addResources(x *answer.Decision, p *cluster.Pod, refused refusal) {
	if p == nil {
		return
	}
	c := r.machine.Cluster()
	if p.Stage == cluster.Bound { // a resize: what it needs has to be on the node that the pod has, beside the others
		nodes, _ := c.Nodes().List()
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return n.Node().Name != p.Node })
		itself := func(o *cluster.Pod) bool { return o == p }
		x.Resources = resourceUseOn(nodes, c, podNeeds(p), itself, keptFromResize(r.machine, p),
			asking(r.machine, 1, refused))
		return
	}
	x.Resources = resourceUse(c, podNeeds(p), heldFor(nil), keptFrom(r.machine, p),
		askingPod(r.machine, p, refused))
	if e := r.machine.Queue().Find(p.Object.UID); isGang(e) {
		x.Gang = gangNeeds(x.Point, r.machine, p.Group, refused)
	}
}
