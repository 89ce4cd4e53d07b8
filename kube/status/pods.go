package status

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// podStatus is what a pod's status is to say.
type podStatus struct {
	ref       ref
	condition *corev1.PodCondition // nil: as it is
	nominated string
}

// show has the status of a pod say where it is nominated, and the condition if that is not nil.
func (s *Status) show(m *scheduler.Machine, p *cluster.Pod, condition *corev1.PodCondition) {
	uid := p.Object.UID
	if condition == nil { // what waits to be said of it goes on waiting
		condition = s.pods.waiting(uid).condition
	}
	s.pods.put(uid, podStatus{refOf(p), condition, m.NominatedNode(uid)})
}

// writePod writes the status of a pod, unless the API server says it already.
func (s *Status) writePod(ctx context.Context, uid types.UID, want podStatus) {
	seen, there := s.opts.Seen(uid)
	if !there || seen.Terminating || seen.NodeName != "" {
		s.standing.Add(1)
		return
	}
	patch, ok := s.podPatch(seen, want)
	if !ok {
		s.standing.Add(1)
		return
	}
	_, err := s.opts.Pods.CoreV1().Pods(want.ref.namespace).Patch(
		ctx, want.ref.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		s.podsWritten.Add(1)
		s.pods.written(uid)
		return
	}
	if lasting(err) || ctx.Err() != nil {
		s.failed.Add(1)
		return
	}
	if s.pods.failed(ctx, uid, want) {
		s.failed.Add(1)
		s.report("status of pod %s/%s: %v: given up after %d tries", want.ref.namespace, want.ref.name, err, maxTries)
	}
}

// lasting reports whether the same request would fail again: the object is gone or another one, or may not be written.
func lasting(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}

// statusPatch is a patch of a pod's status. The UID is a precondition: the API server refuses it for another pod.
type statusPatch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
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

// podPatch returns what has to be patched; false for nothing.
func (s *Status) podPatch(seen Pod, want podStatus) (patch []byte, ok bool) {
	var p statusPatch
	p.Metadata.UID = want.ref.uid
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

// says reports whether a condition stands already.
func says(stands, want *corev1.PodCondition) bool {
	return stands != nil && stands.Status == want.Status && stands.Reason == want.Reason &&
		stands.Message == want.Message
}

func (s *Status) report(format string, args ...any) {
	if s.opts.Report != nil {
		s.opts.Report(fmt.Sprintf(format, args...))
	}
}
