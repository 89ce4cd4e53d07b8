package preemption

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// The results of searches, for people to read.

// tracePod records the search for a single pod: the nodes that were tried, and the candidates among them.
func tracePod(p *Preemption, state fwk.CycleState, pod *v1.Pod, tried []fwk.NodeInfo, found []candidate) {
	trace := framework.TraceOf(state)
	if trace == nil {
		return
	}
	x := &framework.PreemptionTrace{}
	var possible []*target
	for _, node := range tried {
		possible = append(possible, p.evictable(pod, node)...)
	}
	slices.SortFunc(possible, p.lessImportant)
	x.Possible = uidsOfTargets(possible)
	for _, c := range found {
		option := framework.PreemptionOption{Node: c.node, Violations: c.violations}
		for _, v := range c.victims {
			option.Victims = append(option.Victims, v.Object.UID)
		}
		x.Options = append(x.Options, option)
	}
	trace.Preemption = x
}

// tracePlan records a plan for a gang.
func tracePlan(trace *framework.Trace, pl *plan) {
	if trace.Preemption == nil {
		trace.Preemption = &framework.PreemptionTrace{}
	}
	x := trace.Preemption
	for _, uid := range uidsOfTargets(pl.candidates) {
		if !slices.Contains(x.Possible, uid) {
			x.Possible = append(x.Possible, uid)
		}
	}
	costs := pl.costs()
	option := framework.PreemptionOption{Domain: pl.limit, Violations: costs.violations}
	for _, v := range costs.victims {
		option.Victims = append(option.Victims, v.Object.UID)
	}
	x.Options = append(x.Options, option)
}

// uidsOfTargets returns the pods of targets, in their order.
func uidsOfTargets(targets []*target) (uids []types.UID) {
	each := func(pod *cluster.Pod) {
		if !slices.Contains(uids, pod.Object.UID) {
			uids = append(uids, pod.Object.UID)
		}
	}
	for _, u := range targets {
		for _, pod := range u.pods {
			each(pod)
		}
	}
	return uids
}
