package sim

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/sim/workload/admission"
)

// quotas are the ResourceQuotas, and the pods that wait for them. A pod that a quota refuses does not exist. Its
// creator tries again when a pod of the namespace has gone.
type quotas struct {
	*admission.Quotas
	charges map[int32]admission.Charge // by the index of the pod
	waiting map[string][]int32         // by namespace, the pods that were refused, in the order of the plans
	refused map[string]*report.QuotaRefusals
	was     map[int32]bool // the pods that are counted in refused
}

func newQuotas(work *workload.Workload) quotas {
	return quotas{admission.NewQuotas(work.Quotas), map[int32]admission.Charge{}, map[string][]int32{},
		map[string]*report.QuotaRefusals{}, map[int32]bool{}}
}

// admit charges the quotas with pod i. It returns false if they refuse the pod, which waits then. If the pod exists
// already in the cluster that the files describe, admit charges it in any case.
func (q *quotas) admit(i int32, pod *corev1.Pod, exists bool) (bool, error) {
	if exists {
		charge, err := q.Charge(pod)
		q.charges[i] = charge
		return true, err
	}
	charge, err := q.Admit(pod)
	if err == nil {
		q.charges[i] = charge
		return true, nil
	}
	waiting := q.waiting[pod.Namespace]
	at, _ := slices.BinarySearch(waiting, i)
	q.waiting[pod.Namespace] = slices.Insert(waiting, at, i)
	if r := q.refused[pod.Namespace]; r == nil {
		q.refused[pod.Namespace] = &report.QuotaRefusals{Namespace: pod.Namespace, Pods: 1, First: err.Error()}
	} else if !q.was[i] {
		r.Pods++
	}
	q.was[i] = true
	return false, nil
}

// release gives back what pod i used, and returns the pods that may come now.
func (q *quotas) release(i int32, namespace string) (retry []int32) {
	charge, charged := q.charges[i]
	if !charged {
		return nil
	}
	delete(q.charges, i)
	q.Release(namespace, charge)
	retry = q.waiting[namespace]
	delete(q.waiting, namespace)
	return retry
}

// refusals returns the refusals by namespace.
func (q *quotas) refusals() (all []report.QuotaRefusals) {
	for namespace, r := range q.refused { // any order: they are sorted
		r.StillRefused = len(q.waiting[namespace])
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b report.QuotaRefusals) int { return strings.Compare(a.Namespace, b.Namespace) })
	return all
}
