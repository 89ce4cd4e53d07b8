package status

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// podStatus is the wanted status of a pod.
type podStatus struct {
	ref       ref
	condition *corev1.PodCondition // nil: as it is
	nominated string
}

// show asks for a pod's status with its nominated node, and with the condition if that is not nil.
func (s *Status) show(m *scheduler.Machine, p *cluster.Pod, condition *corev1.PodCondition) {
	uid := p.Object.UID
	if condition == nil { // a condition that waits to be written continues to wait
		condition = s.pods.waiting(uid).condition
	}
	s.pods.put(uid, podStatus{refOf(p), condition, m.NominatedNode(uid)})
}

// writePod writes the status of a pod, unless the API server has it already or the pod has a node. The resourceVersion
// is a precondition: the write fails if the pod has changed since the watch reported it. The caller tries again.
func (s *Status) writePod(ctx context.Context, uid types.UID, want podStatus) (outcome, error) {
	seen, there := s.opts.Seen(uid)
	seen = s.own.newer(uid, seen, there)
	if !there || seen.Terminating || seen.NodeName != "" {
		return stands, nil
	}
	patch, ok := s.podPatch(seen, want)
	if !ok {
		return stands, nil
	}
	pod, err := s.opts.Pods.CoreV1().Pods(want.ref.namespace).Patch(
		ctx, want.ref.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		s.own.wrote(uid, pod)
		return wrote, nil
	case lasting(err):
		return lost, err
	}
	return failed, err
}

// lasting reports whether the same request would fail again, because the object is gone or another one has its name. A
// webhook or a policy may refuse with the same codes and accept later. Its answer names no object, or no wrong UID.
func lasting(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || status.Status().Details.Name == "" {
		return false
	}
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) &&
		slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
			return c.Field == "metadata.uid"
		})
}

// ownPods are the pods whose status this process has written, as the API server answered. The watch reports them later.
type ownPods struct {
	mu    sync.Mutex
	byUID map[types.UID]Pod
}

// maxOwn is the number of ownPods that are kept. Beyond that all are forgotten. Then some writes repeat what the server
// has, and some are refused and tried again.
const maxOwn = 50_000

// newer returns the pod as it was seen, or as this process wrote it last if that is newer.
func (o *ownPods) newer(uid types.UID, seen Pod, there bool) Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, ok := o.byUID[uid]
	if !ok {
		return seen
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, own.ResourceVersion)
	if !there || err != nil || order >= 0 {
		delete(o.byUID, uid)
		return seen
	}
	return own
}

func (o *ownPods) wrote(uid types.UID, pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byUID == nil || len(o.byUID) >= maxOwn {
		o.byUID = map[types.UID]Pod{}
	}
	o.byUID[uid] = PodOf(pod)
}

// PodOf returns the relevant parts of a pod of the API server.
func PodOf(pod *corev1.Pod) Pod {
	p := Pod{
		NodeName: pod.Spec.NodeName, NominatedNodeName: pod.Status.NominatedNodeName, Generation: pod.Generation,
		ResourceVersion: pod.ResourceVersion, Terminating: pod.DeletionTimestamp != nil,
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			p.Scheduled = &c
		}
	}
	return p
}

// statusPatch is a patch of a pod's status. The API server refuses it for another pod, and for another version of it.
type statusPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions []patchedCondition `json:"conditions,omitempty"`
		// NominatedNodeName is nil for as it is; a null takes the field away.
		NominatedNodeName json.RawMessage `json:"nominatedNodeName,omitempty"`
	} `json:"status"`
}

// patchedCondition is a condition as a patch has it: only the times that change.
type patchedCondition struct {
	Type               corev1.PodConditionType `json:"type"`
	ObservedGeneration int64                   `json:"observedGeneration,omitempty"`
	Status             corev1.ConditionStatus  `json:"status"`
	LastProbeTime      *metav1.Time            `json:"lastProbeTime"`
	LastTransitionTime *metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                  `json:"reason,omitempty"`
	Message            string                  `json:"message,omitempty"`
}

// podPatch returns the patch to send; false for none.
func (s *Status) podPatch(seen Pod, want podStatus) (patch []byte, ok bool) {
	var p statusPatch
	p.Metadata.UID, p.Metadata.ResourceVersion = want.ref.uid, seen.ResourceVersion
	if c := want.condition; c != nil && !says(seen.Scheduled, c) {
		patched := patchedCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, ObservedGeneration: seen.Generation,
		}
		if seen.Scheduled == nil || seen.Scheduled.Status != c.Status {
			now := metav1.NewTime(s.opts.Now())
			patched.LastTransitionTime = &now
		}
		p.Status.Conditions, ok = []patchedCondition{patched}, true
	}
	if want.nominated != seen.NominatedNodeName {
		p.Status.NominatedNodeName, ok = json.RawMessage("null"), true
		if want.nominated != "" {
			name, err := json.Marshal(want.nominated)
			if err != nil {
				return nil, false // a string is always JSON
			}
			p.Status.NominatedNodeName = name
		}
	}
	if !ok {
		return nil, false
	}
	patch, err := json.Marshal(p)
	return patch, err == nil
}

// says reports whether the pod has a condition already.
func says(stands, want *corev1.PodCondition) bool {
	return stands != nil && stands.Status == want.Status && stands.Reason == want.Reason &&
		stands.Message == want.Message
}
