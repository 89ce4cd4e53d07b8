package choices

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// rate fills in how good the chosen node is for a pod that waits.
func (r *Reader) rate(m *scheduler.Machine, x *answer.Choice, pod *v1.Pod) {
	trace := &framework.Trace{}
	placement, ok := scheduler.Rate(m, pod, trace)
	nodes, _ := m.Cluster().Nodes().List()
	x.Nodes, x.Feasible = len(nodes), len(trace.Feasible)
	x.Nominated = m.NominatedNode(pod.UID)
	x.Claims, x.Extenders = claims(pod), m.ExtendersFilter(pod)
	switch {
	case !ok:
		unrated(x, fmt.Sprintf("the configuration has no profile for scheduler %q", pod.Spec.SchedulerName))
		return
	case trace.Failed != nil:
		unrated(x, fmt.Sprintf("plugin %s failed in %s", trace.Failed.Plugin, trace.Failed.Point))
		return
	case placement.Status != nil && placement.Status.IsError():
		unrated(x, fmt.Sprintf("plugin %s failed", placement.Status.Plugin()))
		return
	}
	if n := framework.NumFeasibleNodesToFind(0, len(nodes)); n < x.Feasible {
		x.Sample = n
	}
	scored := trace.Scored
	if len(scored) == 0 { // no plugin scores
		for _, name := range trace.Feasible {
			scored = append(scored, framework.ScoredNode{Node: name})
		}
	}
	if ours := ourChoice(scored, x.Nominated); ours != nil {
		score := scoreOf(ours)
		x.Ours = &score
	}
	own := slices.IndexFunc(scored, func(n framework.ScoredNode) bool { return n.Node == x.Node })
	if own < 0 {
		x.Verdict, x.Refusals = answer.Infeasible, refusalsOf(trace, x.Node, nodes)
		return
	}
	rank(x, scored, own)
}

func unrated(x *answer.Choice, why string) { x.Verdict, x.Unrated = answer.Unrated, why }

// claims reports whether a pod has volumes or devices whose claims its scheduler binds before the pod.
func claims(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		})
}

// ourChoice returns the node that Rollcall would choose: the one that is kept for the pod, or else the best.
func ourChoice(scored []framework.ScoredNode, nominated string) *framework.ScoredNode {
	if len(scored) == 0 {
		return nil
	}
	if i := slices.IndexFunc(scored, func(n framework.ScoredNode) bool { return n.Node == nominated }); i > 0 {
		return &scored[i]
	}
	return &scored[0]
}

func scoreOf(n *framework.ScoredNode) answer.NodeScore {
	out := answer.NodeScore{Node: n.Node, Total: n.Total}
	for _, p := range n.Plugins {
		out.Plugins = append(out.Plugins, answer.PluginScore(p))
	}
	return out
}

// rank fills in the place of a feasible node. scored are all feasible nodes, the best first.
func rank(x *answer.Choice, scored []framework.ScoredNode, own int) {
	score := scoreOf(&scored[own])
	x.Chosen = &score
	for i := range scored {
		switch {
		case scored[i].Total > score.Total:
			x.Rank++
		case scored[i].Total == score.Total && i != own:
			x.Tied++
		}
	}
	x.Rank++
	for _, p := range score.Plugins {
		x.MaxPoints += p.Weight * fwk.MaxScore
	}
	x.Verdict = answer.Other
	if x.Ours.Node == x.Node {
		x.Verdict = answer.Same
	}
}

// refusalsOf returns the plugin that refuses a node, with its reasons. If none refuses the node itself, the pod as a
// whole was refused, or the node is not in the state.
func refusalsOf(trace *framework.Trace, node string, nodes []fwk.NodeInfo) (out []answer.Refusal) {
	add := func(a *framework.Answer, nodes int64) {
		words := a.Reasons
		if len(words) == 0 {
			words = []string{""}
		}
		for _, reason := range words {
			out = append(out, answer.Refusal{Plugin: a.Plugin, Code: a.Code, Reason: reason, Nodes: nodes})
		}
	}
	for _, refused := range [][]framework.NodeRefusal{trace.LeftOut, trace.Refused} {
		for i := range refused {
			if refused[i].Node == node && len(out) == 0 {
				add(&refused[i].Answer, 1)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	if !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == node }) {
		return []answer.Refusal{{Plugin: NoNode, Code: fwk.UnschedulableAndUnresolvable.String(),
			Reason: "the log has no node of that name at this entry", Nodes: 1}}
	}
	for i := range trace.PreFilter {
		if a := &trace.PreFilter[i].Answer; a.Code != fwk.Success.String() && a.Code != fwk.Skip.String() {
			add(a, 0)
		}
	}
	return out
}

// NoNode is named in place of a plugin for a node that the state does not have.
const NoNode = "NoNode"
