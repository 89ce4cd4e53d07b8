package watch

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Pod has the untrimmed parts of a pod that are kept, as the API server reported them last. They may be newer than
// the pod in the log.
type Pod struct {
	Namespace, Name   string
	ResourceVersion   string
	Generation        int64
	NodeName          string
	NominatedNodeName string
	// Scheduled is its condition PodScheduled, nil if it has none. It must not be changed.
	Scheduled *corev1.PodCondition
	// Terminating: it has a deletion timestamp.
	Terminating bool
}

// onNode is the condition of the pods that have a node: the API server has written it with the binding.
var onNode = &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}

func podOf(pod *corev1.Pod) Pod {
	p := Pod{
		Namespace:         pod.Namespace,
		Name:              pod.Name,
		ResourceVersion:   pod.ResourceVersion,
		Generation:        pod.Generation,
		NodeName:          pod.Spec.NodeName,
		NominatedNodeName: pod.Status.NominatedNodeName,
		Terminating:       pod.DeletionTimestamp != nil,
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			p.Scheduled = onNode
		} else {
			kept := *c // not the whole pod with it
			p.Scheduled = &kept
		}
	}
	return p
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// pods holds the pods that are not finished.
type pods struct {
	mu    sync.RWMutex
	byUID map[types.UID]Pod
}

func (p *pods) get(uid types.UID) (Pod, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pod, ok := p.byUID[uid]
	return pod, ok
}

func (p *pods) put(uid types.UID, pod Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byUID[uid] = pod
}

func (p *pods) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byUID, uid)
}

func (p *pods) replace(all map[types.UID]Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byUID = all
}
