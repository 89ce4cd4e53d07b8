package preemption

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// target is a pod, or all pods of a group whose disruptionMode is all: they are evicted together.
type target struct {
	framework.Victim // as policies see it
	key              fwk.EntityKey
	pods             []*cluster.Pod // of Victim.Pods, in the same order
}

// targetOf returns the target that the pod is evicted in.
func (p *Preemption) targetOf(pod *cluster.Pod) *target {
	u := &target{}
	u.Kind, u.Priority = framework.PodVictim, p.view.State().Gangs().PriorityOf(pod.Object)
	u.key, u.pods = pod.DisruptedWith()
	switch {
	case u.key.Type == fwk.CompositePodGroupKeyType:
		u.Kind = framework.CompositeVictim
	case pod.Group != nil:
		u.Kind = framework.GangVictim
	}
	for i, each := range u.pods {
		if t := p.started(each.Object); i == 0 || t.Before(u.Started) {
			u.Started = t
		}
		u.Priority = max(u.Priority, p.view.State().Gangs().PriorityOf(each.Object))
	}
	u.Pods = objects(u.pods)
	return u
}

// objects returns the API objects of pods.
func objects(pods []*cluster.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p.Object
	}
	return out
}

// has reports whether a pod of the gang is in the target.
func (u *target) has(g *cluster.Group) bool {
	return slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return p.Group == g })
}

// moreImportant orders targets, the most important first: by the policy, and then by name.
func (p *Preemption) moreImportant(a, b *target) int {
	return cmp.Or(
		p.policy().Compare(&a.Victim, &b.Victim),
		strings.Compare(string(a.key.Type), string(b.key.Type)),
		strings.Compare(a.key.Namespace, b.key.Namespace),
		strings.Compare(a.key.Name, b.key.Name),
	)
}

// targetsOn returns the targets with a pod on one of the nodes, each once, in the order of nodes and pods.
func (p *Preemption) targetsOn(nodes ...fwk.NodeInfo) (targets []*target) {
	seen := map[fwk.EntityKey]bool{}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			pod := p.view.State().Pods().Get(info.GetPod().UID)
			if pod == nil {
				continue
			}
			u := p.targetOf(pod)
			if !seen[u.key] {
				seen[u.key] = true
				targets = append(targets, u)
			}
		}
	}
	return targets
}

// violations counts, for each of the targets in the order given, the pods that a disruption budget would have stay: the
// targets before them have used up what it allows.
func violations(targets []*target, budgets []*policyv1.PodDisruptionBudget) []int {
	left := make([]int32, len(budgets))
	selectors := make([]labels.Selector, len(budgets))
	for i, b := range budgets {
		left[i] = b.Status.DisruptionsAllowed
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() {
			selectors[i] = s
		}
	}
	violates := func(pod *v1.Pod) bool {
		if len(pod.Labels) == 0 {
			return false
		}
		for i, b := range budgets {
			if b.Namespace != pod.Namespace || selectors[i] == nil || !selectors[i].Matches(labels.Set(pod.Labels)) {
				continue
			}
			if _, counted := b.Status.DisruptedPods[pod.Name]; counted {
				continue
			}
			if left[i]--; left[i] < 0 {
				return true
			}
		}
		return false
	}
	counts := make([]int, len(targets))
	for i, u := range targets {
		for _, pod := range u.pods {
			if violates(pod.Object) {
				counts[i]++
			}
		}
	}
	return counts
}

// terminatingByPreemption says whether the pod is being deleted for a preemptor's sake, by whatever scheduler.
func terminatingByPreemption(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonPreemptionByScheduler
	})
}
