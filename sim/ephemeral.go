package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/sim/workload/admission"
)

// makeEphemeral makes the claims for the generic ephemeral volumes of a pod, as the ephemeral volume controller does.
// It leaves a claim alone that has the name already: a pod whose claim belongs to another pod waits for ever.
func (s *storage) makeEphemeral(pod *corev1.Pod) (inputs []eventlog.Payload) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		name, template := ephemeral.VolumeClaimName(pod, v), v.Ephemeral.VolumeClaimTemplate
		if s.claims[[2]string{pod.Namespace, name}] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: name, CreationTimestamp: pod.CreationTimestamp,
				UID:         workload.UID(eventlog.PersistentVolumeClaims, pod.Namespace, name+" "+string(pod.UID)),
				Labels:      template.Labels,
				Annotations: template.Annotations,
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
			},
			Spec:   *template.Spec.DeepCopy(),
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		}
		_, beta := claim.Annotations[corev1.BetaStorageClassAnnotation]
		if claim.Spec.StorageClassName == nil && !beta {
			if class := admission.DefaultClass(slices.Collect(maps.Values(s.classes))); class != nil {
				claim.Spec.StorageClassName = &class.Name
			}
		}
		s.remember(claim)
		inputs = append(inputs, upserted(eventlog.PersistentVolumeClaims, claim))
	}
	return inputs
}

// dropEphemeral deletes the claims that were made for a pod, now that the pod is gone. A volume that was provisioned
// for one is deleted too, unless its class retains it. Other volumes are released.
func (s *storage) dropEphemeral(pod *corev1.Pod) (inputs []eventlog.Payload) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		claim := s.claims[[2]string{pod.Namespace, ephemeral.VolumeClaimName(pod, v)}]
		if claim == nil || ephemeral.VolumeIsForPod(pod, claim) != nil {
			continue
		}
		s.forget(eventlog.PersistentVolumeClaims, claim.Namespace, claim.Name)
		inputs = append(inputs, &eventlog.Deleted{
			Resource: eventlog.PersistentVolumeClaims, Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID})
		pv := s.volumes[claim.Spec.VolumeName]
		switch {
		case pv == nil:
		case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
			s.forget(eventlog.PersistentVolumes, "", pv.Name)
			inputs = append(inputs, &eventlog.Deleted{Resource: eventlog.PersistentVolumes, Name: pv.Name, UID: pv.UID})
		default:
			released := pv.DeepCopy()
			released.Status.Phase = corev1.VolumeReleased
			s.remember(released)
			inputs = append(inputs, upserted(eventlog.PersistentVolumes, released))
		}
	}
	return inputs
}
