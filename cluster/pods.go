package cluster

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Pods are the pods that are neither gone nor finished.
type Pods struct {
	byUID  map[types.UID]*Pod
	byName map[types.NamespacedName]types.UID
	plain  plainPods // a memo of newInfo
}

func newPods() *Pods {
	return &Pods{byUID: map[types.UID]*Pod{}, byName: map[types.NamespacedName]types.UID{}}
}

// Get returns the pod, nil if there is none of that UID.
func (ps *Pods) Get(uid types.UID) *Pod { return ps.byUID[uid] }

// Named returns the pod of that name, nil if there is none.
func (ps *Pods) Named(namespace, name string) *Pod {
	return ps.byUID[ps.byName[types.NamespacedName{Namespace: namespace, Name: name}]]
}

// Len returns how many pods there are.
func (ps *Pods) Len() int { return len(ps.byUID) }

// All returns every pod, by namespace, name and UID.
func (ps *Pods) All() []*Pod { return ps.That(func(*Pod) bool { return true }) }

// That returns the pods for which is returns true, by namespace, name and UID. is is called for all pods, in any order.
// If few pods are wanted, this takes a fraction of the time of All, which sorts them all.
func (ps *Pods) That(is func(*Pod) bool) []*Pod {
	var pods []*Pod
	// any order: sorted right below
	for _, p := range ps.byUID {
		if is(p) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), comparePods(a, b))
	})
	return pods
}

// Leaves reports whether the pod is about to lose its node: it is gone, is being deleted, or was asked to go.
func (ps *Pods) Leaves(uid types.UID) bool {
	p := ps.byUID[uid]
	return p == nil || p.Object.DeletionTimestamp != nil || p.evicted
}

// newInfo is framework.NewPodInfo with the requests summed up. That sum is most of the cost of a new pod, and many pods
// request the same, as members of a gang do. Then the new pod shares the sum with the pod before. Only the Pod of a
// PodInfo is ever written.
func (ps *Pods) newInfo(pod *v1.Pod) (*framework.PodInfo, error) {
	if !isPlain(pod) {
		return framework.NewPodInfo(pod)
	}
	recent := &ps.plain
	for i := range recentPlain {
		at := (recent.last + i) % recentPlain
		if info := recent.infos[at]; info != nil && sameRequests(info.Pod, pod) {
			recent.last = at
			return withPod(info, pod), nil
		}
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	info.CalculateResource()
	recent.infos[recent.next], recent.last = info, recent.next
	recent.next = (recent.next + 1) % recentPlain
	return info, nil
}
