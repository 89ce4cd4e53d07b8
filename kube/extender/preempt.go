package extender

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Preempt asks the extenders that are interested in a pod and support preemption about candidates, sorted by node, one
// after the other, each about the candidates that the earlier ones have left. It returns their answers, in that order.
// pods are, by node, the pods that may be named as victims there. Extenders that are not nodeCacheCapable receive these
// pods as they are in pods.
//
// Nobody is asked about a candidate of which a victim is gone: it is another one by now. If they all are, nobody is
// asked. The answers then leave them all, so that the pod is tried again with the candidates at that time.
func (c *Client) Preempt(
	ctx context.Context, pod *v1.Pod, candidates []eventlog.Candidate, pods map[string][]*v1.Pod,
) []eventlog.ExtenderAnswer {
	var asked []*extender
	for _, e := range c.list {
		if e.PreemptVerb != "" && e.interested(pod) {
			asked = append(asked, e)
		}
	}
	answers, whole := c.begin(ctx, asked, pod, func(a *eventlog.ExtenderAnswer, why string) { a.PreemptError = why })
	if whole == nil {
		return answers
	}
	defer c.end()
	if candidates = unchanged(candidates, pods, answers); len(candidates) == 0 {
		return answers
	}
	for i, e := range asked {
		if len(candidates) == 0 {
			return answers[:i] // the others are not asked
		}
		kept, err := c.preempt(ctx, e, whole, candidates, pods)
		if err != nil {
			answers[i].PreemptError = errorText(err)
			if e.Ignorable {
				continue
			}
			return answers[:i+1]
		}
		answers[i].Candidates = kept
		none := func(c eventlog.Candidate) bool { return len(c.Victims) == 0 }
		candidates = slices.DeleteFunc(slices.Clone(kept), none)
		if len(candidates) < len(kept) && !e.Ignorable {
			return answers[:i+1] // an error for kube-scheduler
		}
	}
	return answers
}

// unchanged returns the candidates of which all victims are there. If there is none, the answers are as if the
// extenders had left them all.
func unchanged(candidates []eventlog.Candidate, pods map[string][]*v1.Pod, answers []eventlog.ExtenderAnswer,
) []eventlog.Candidate {
	there := slices.DeleteFunc(slices.Clone(candidates), func(c eventlog.Candidate) bool {
		return slices.ContainsFunc(c.Victims, func(uid types.UID) bool { return podOf(pods[c.Node], uid) == nil })
	})
	if len(there) == 0 {
		for i := range answers {
			answers[i].Candidates = candidates
		}
	}
	return there
}

// podOf returns the pod of a UID, nil if it is not among the pods.
func podOf(pods []*v1.Pod, uid types.UID) *v1.Pod {
	if i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.UID == uid }); i >= 0 {
		return pods[i]
	}
	return nil
}

// preempt asks one extender.
func (c *Client) preempt(ctx context.Context, e *extender, pod *v1.Pod, candidates []eventlog.Candidate,
	pods map[string][]*v1.Pod) ([]eventlog.Candidate, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.NodeCacheCapable {
		args.NodeNameToMetaVictims = metaVictims(candidates)
	} else {
		args.NodeNameToVictims = wholeVictims(candidates, pods)
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := e.send(ctx, e.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	var kept []eventlog.Candidate
	for _, node := range slices.Sorted(maps.Keys(result.NodeNameToMetaVictims)) {
		_, ok := slices.BinarySearchFunc(candidates, node, func(c eventlog.Candidate, node string) int {
			return cmp.Compare(c.Node, node)
		})
		if !ok {
			return nil, fmt.Errorf("it names node %q, about which it was not asked", cut(node))
		}
		candidate, err := victimsOf(node, result.NodeNameToMetaVictims[node], pods[node])
		if err != nil {
			return nil, err
		}
		kept = append(kept, candidate)
	}
	return kept, nil
}

// victimsOf checks the answer of an extender about a node that has these pods.
func victimsOf(node string, said *extenderv1.MetaVictims, on []*v1.Pod) (c eventlog.Candidate, err error) {
	c.Node = node
	if said == nil {
		return c, nil
	}
	if said.NumPDBViolations < 0 {
		return c, fmt.Errorf("it says that %d disruption budgets are violated on node %s", said.NumPDBViolations, node)
	}
	c.Violations = said.NumPDBViolations
	for _, victim := range said.Pods {
		if victim == nil {
			return c, fmt.Errorf("it names no pod as a victim on node %s", node)
		}
		uid := types.UID(victim.UID)
		if podOf(on, uid) == nil {
			return c, fmt.Errorf("it claims to preempt pod %q on node %s, and that is not on the node", cut(victim.UID),
				node)
		}
		if !slices.Contains(c.Victims, uid) {
			c.Victims = append(c.Victims, uid)
		}
	}
	return c, nil
}

func metaVictims(candidates []eventlog.Candidate) map[string]*extenderv1.MetaVictims {
	victims := make(map[string]*extenderv1.MetaVictims, len(candidates))
	for _, c := range candidates {
		on := &extenderv1.MetaVictims{NumPDBViolations: c.Violations}
		for _, uid := range c.Victims {
			on.Pods = append(on.Pods, &extenderv1.MetaPod{UID: string(uid)})
		}
		victims[c.Node] = on
	}
	return victims
}

func wholeVictims(candidates []eventlog.Candidate, pods map[string][]*v1.Pod) map[string]*extenderv1.Victims {
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	for _, c := range candidates {
		on := &extenderv1.Victims{NumPDBViolations: c.Violations}
		for _, uid := range c.Victims {
			on.Pods = append(on.Pods, podOf(pods[c.Node], uid))
		}
		victims[c.Node] = on
	}
	return victims
}
