package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rollcall-sched/rollcall/sim/workload"
)

// budget is a PodDisruptionBudget.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
	// used counts the evictions since the object came or changed.
	used int
}

// budgets are the PodDisruptionBudgets that exist.
type budgets struct {
	all map[types.NamespacedName]*budget
	// controlled are the pods of each controller, in the order of the plans; nil until the first count.
	controlled map[controllerKey][]int32
}

// controllerKey names the controller of pods.
type controllerKey struct{ namespace, kind, name string }

// keyOf returns the controller of a planned pod; false for none.
func keyOf(plan *workload.PodPlan) (key controllerKey, has bool) {
	if plan.Controller == nil {
		return key, false
	}
	return controllerKey{plan.Namespace, plan.Controller.Kind, plan.Controller.Name}, true
}

// remember keeps a budget that came or changed. One with a selector that is wrong covers no pod, as in Kubernetes.
func (b *budgets) remember(o *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	b.all[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = &budget{o, selector, 0}
}

// covers reports whether the budget is about a pod of the namespace.
func (b *budget) covers(namespace string, pod *corev1.Pod) bool {
	return b.Namespace == namespace && b.selector.Matches(labels.Set(pod.Labels))
}

// of returns the budgets that cover a pod, by name.
func (b *budgets) of(namespace string, pod *corev1.Pod) (covering []*budget) {
	for _, one := range b.all { // any order: they are sorted
		if one.covers(namespace, pod) {
			covering = append(covering, one)
		}
	}
	slices.SortFunc(covering, func(a, b *budget) int { return strings.Compare(a.Name, b.Name) })
	return covering
}

// headcount is the disruption controller's count of a budget's pods.
type headcount struct {
	healthy, desired, expected int
	// failed says why it cannot count; "" if it can.
	failed string
}

// allowed is the number of pods that may be evicted.
func (h *headcount) allowed() int {
	if h.failed != "" || h.expected <= 0 {
		return 0
	}
	return max(0, h.healthy-h.desired)
}

// String says why no pod may be evicted.
func (h *headcount) String() string {
	if h.failed != "" {
		return h.failed
	}
	return fmt.Sprintf("it needs %d healthy and has %d", h.desired, h.healthy)
}

// count counts the pods of a budget, as the disruption controller does. The log keeps only the selector of a budget's
// spec. So a recorded budget allows the number in its status, less the evictions since.
func (b *budgets) count(c *Cluster, one *budget) *headcount {
	h := &headcount{}
	controllers := map[controllerKey]bool{}
	for _, i := range c.live { // any order: sums
		plan := &c.work.Pods[i]
		if !one.covers(plan.Namespace, c.pods[i].template) {
			continue
		}
		h.expected++
		if isHealthy(&c.pods[i]) {
			h.healthy++
		}
		if key, has := keyOf(plan); has {
			controllers[key] = true
		}
	}
	limit, most := one.Spec.MinAvailable, false
	if one.Spec.MaxUnavailable != nil {
		limit, most = one.Spec.MaxUnavailable, true
	}
	if limit == nil {
		h.desired = h.healthy - int(one.Status.DisruptionsAllowed) + one.used
		return h
	}
	if most || limit.Type == intstr.String {
		h.expected = 0
		for key := range controllers { // any order: a sum, and the last kind by name
			h.expected += b.replicas(c, key)
			if key.kind == "Job" || key.kind == "DaemonSet" {
				h.failed = max(h.failed, key.kind+"s have no scale to count by")
			}
		}
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, h.expected, true)
	if err != nil {
		h.failed = err.Error()
	}
	if h.desired = n; most {
		h.desired = max(0, h.expected-n)
	}
	return h
}

// isHealthy reports whether a pod is ready. A pod is ready as soon as it runs, while its node is ready.
func isHealthy(pod *podState) bool { return pod.phase == running && isReady(pod.node.object) }

// isReady reports whether a node is not known to be unready.
func isReady(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// replicas returns the number of pods that a controller keeps: the present ones, and the ones that will replace others.
func (b *budgets) replicas(c *Cluster, controller controllerKey) (n int) {
	if b.controlled == nil {
		b.controlled = map[controllerKey][]int32{}
		for i := range c.work.Pods {
			if key, has := keyOf(&c.work.Pods[i]); has {
				b.controlled[key] = append(b.controlled[key], int32(i))
			}
		}
	}
	for _, i := range b.controlled[controller] {
		p := &c.pods[i]
		kept := true
		switch p.phase {
		case planned:
			kept = c.work.Pods[i].Arrival <= c.now
		case gone:
			kept = p.ended.IsDisruption() && c.comesAgain(i, p.ended)
		}
		if kept {
			n++
		}
	}
	return n
}

// mayEvict asks the budget of a pod for its eviction, as the API server does. It returns why not, "" if the pod may be
// evicted. counts are the counts of this instant. The API server evicts no pod with several budgets.
func (b *budgets) mayEvict(c *Cluster, i int32, counts map[*budget]*headcount) (why string) {
	covering := b.of(c.work.Pods[i].Namespace, c.pods[i].template)
	if len(covering) == 0 {
		return ""
	}
	one := covering[0]
	if len(covering) > 1 {
		return fmt.Sprintf("PodDisruptionBudgets %s and %s: the API evicts no pod of several", one.Name,
			covering[1].Name)
	}
	h := counts[one]
	if h == nil {
		h = b.count(c, one)
		counts[one] = h
	}
	if !isHealthy(&c.pods[i]) {
		always := one.Spec.UnhealthyPodEvictionPolicy != nil &&
			*one.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if always || h.failed == "" && h.healthy >= h.desired && h.desired > 0 {
			return ""
		}
	}
	if h.allowed() == 0 {
		return fmt.Sprintf("PodDisruptionBudget %s: %s", one.Name, h)
	}
	h.healthy--
	one.used++
	return ""
}
