package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/authentication/user"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
)

// quotaPlugin is the name of the plugin that enforces ResourceQuotas.
const quotaPlugin = resourcequota.PluginName

// Quotas are the ResourceQuotas of a cluster, and what its pods use of them. The plugin's own function decides. Usage
// is counted here, because no quota controller runs.
type Quotas struct {
	pods        quota.Evaluator
	byNamespace map[string][]corev1.ResourceQuota
}

// A Charge is the amounts that a pod uses of the quotas of its namespace, in their order.
type Charge []corev1.ResourceList

// NewQuotas returns the quotas without usage.
func NewQuotas(all []*corev1.ResourceQuota) *Quotas {
	q := &Quotas{
		// The clock would be asked about pods that are being deleted. Charge and Admit do not pass their deletion on.
		pods:        quotacore.NewPodEvaluator(nil, clock.RealClock{}),
		byNamespace: map[string][]corev1.ResourceQuota{},
	}
	for _, given := range all {
		one := *given
		one.Status.Hard, one.Status.Used = one.Spec.Hard.DeepCopy(), corev1.ResourceList{}
		for name := range one.Spec.Hard { // any order: a set
			one.Status.Used[name] = resource.Quantity{Format: resource.DecimalSI}
		}
		q.byNamespace[one.Namespace] = append(q.byNamespace[one.Namespace], one)
	}
	for _, each := range q.byNamespace { // any order: each is sorted by itself
		slices.SortFunc(each, func(a, b corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
	}
	return q
}

// LimitsPods reports whether a limit of that name in a quota is about pods.
func LimitsPods(name corev1.ResourceName) bool {
	return len(quotacore.NewPodEvaluator(nil, clock.RealClock{}).MatchingResources([]corev1.ResourceName{name})) > 0
}

// Limits reports whether a namespace has a quota.
func (q *Quotas) Limits(namespace string) bool { return len(q.byNamespace[namespace]) > 0 }

// Admit charges the quotas of a pod's namespace with a pod that is created. The error is a Refusal: a quota is used up,
// or the pod does not say how much it requests of a resource that a quota limits.
func (q *Quotas) Admit(pod *corev1.Pod) (Charge, error) {
	quotas := q.byNamespace[pod.Namespace]
	after, err := resourcequota.CheckRequest(quotas, upstream.NewAttributesRecord(undeleted(pod), nil,
		corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", upstream.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{}), q.pods, nil)
	if err != nil {
		return nil, &Refusal{quotaPlugin, err}
	}
	charge := make(Charge, len(quotas))
	for i := range quotas {
		charge[i] = quota.Subtract(after[i].Status.Used, quotas[i].Status.Used)
	}
	q.byNamespace[pod.Namespace] = after
	return charge, nil
}

// Charge charges the quotas of a pod's namespace with a pod that exists already, even if that exceeds them.
func (q *Quotas) Charge(pod *corev1.Pod) (Charge, error) {
	pod = undeleted(pod)
	quotas := q.byNamespace[pod.Namespace]
	usage, err := q.pods.Usage(pod)
	if err != nil {
		return nil, err
	}
	charge := make(Charge, len(quotas))
	for i := range quotas {
		matches, err := q.pods.Matches(&quotas[i], pod)
		if err != nil {
			return nil, err
		}
		if matches {
			charge[i] = quota.Mask(usage, quota.ResourceNames(quotas[i].Status.Hard))
			quotas[i].Status.Used = quota.Add(quotas[i].Status.Used, charge[i])
		}
	}
	return charge, nil
}

// Release gives back what a pod of a namespace used.
func (q *Quotas) Release(namespace string, charge Charge) {
	quotas := q.byNamespace[namespace]
	for i, used := range charge {
		quotas[i].Status.Used = quota.Mask(quota.Subtract(quotas[i].Status.Used, used),
			quota.ResourceNames(quotas[i].Status.Hard))
	}
}

// undeleted returns the pod as it was before it was asked to go.
func undeleted(pod *corev1.Pod) *corev1.Pod {
	if pod.DeletionTimestamp == nil {
		return pod
	}
	out := *pod
	out.DeletionTimestamp, out.DeletionGracePeriodSeconds = nil, nil
	return &out
}
