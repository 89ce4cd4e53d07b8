package victims

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rollcall-sched/rollcall/cluster"
)

// checkBudgets checks that no PodDisruptionBudget is broken for which there was another choice.
func (c *check) checkBudgets(p *Preemption, again again) {
	broken := c.broken(c.victims)
	forced := c.broken(again.victims)
	for _, b := range broken {
		verdict, why := Violation, "other victims break it less"
		for _, f := range forced {
			if f.budget == b.budget && f.pods >= b.pods {
				verdict, why = Allowed, "decided again, it is broken as much: no node or plan that was found spares it"
			}
		}
		if !again.rules && len(again.victims) == 0 {
			verdict, why = Allowed, "the rules that chose these victims are not kept"
		}
		p.find(verdict, Budget, "", fmt.Sprintf("the PodDisruptionBudget %s/%s allowed %d disruptions, and protects "+
			"%d of the victims (%s); %s", b.budget.Namespace, b.budget.Name, b.allowed, b.pods, b.names, why))
	}
}

// brokenBudget is a budget that allows fewer disruptions than there are victims that it protects.
type brokenBudget struct {
	budget  *policyv1.PodDisruptionBudget
	allowed int32
	pods    int
	names   string
}

// broken returns the budgets that some victims break together, by name.
func (c *check) broken(victims []*cluster.Pod) (out []brokenBudget) {
	lister := c.m.Cluster().Informers().Factory().Policy().V1().PodDisruptionBudgets().Lister()
	budgets, err := lister.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, b := range budgets {
		var names []string
		for _, v := range victims {
			if protects(b, v.Object) {
				names = append(names, nameOf(v.Object))
			}
		}
		if len(names) > int(b.Status.DisruptionsAllowed) {
			n := len(names)
			if more := n - maxNames; more > 0 {
				names = append(names[:maxNames], fmt.Sprintf("%d more", more))
			}
			out = append(out, brokenBudget{b, b.Status.DisruptionsAllowed, n, strings.Join(names, ", ")})
		}
	}
	slices.SortFunc(out, func(a, b brokenBudget) int {
		return strings.Compare(a.budget.Namespace+"/"+a.budget.Name, b.budget.Namespace+"/"+b.budget.Name)
	})
	return out
}

// protects reports whether a budget counts the eviction of a pod.
func protects(b *policyv1.PodDisruptionBudget, pod *v1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || selector.Empty() || len(pod.Labels) == 0 || b.Namespace != pod.Namespace {
		return false
	}
	_, counted := b.Status.DisruptedPods[pod.Name]
	return !counted && selector.Matches(labels.Set(pod.Labels))
}
