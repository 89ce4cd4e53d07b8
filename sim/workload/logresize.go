package workload

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/sim/workload/admission"
)

// requestGrew reports whether a claim asks for more than when it was last seen. It returns an error if the API server
// would not let it.
func (r *recording) requestGrew(claim *corev1.PersistentVolumeClaim) (bool, error) {
	key := [2]string{claim.Namespace, claim.Name}
	was := r.claims[key]
	r.claims[key] = claim
	if was == nil || was.UID != claim.UID || !AsksForMore(was, claim) {
		return false, nil
	}
	if claim.Spec.VolumeName != "" { // the log may have its binding and its growth as one change
		was = was.DeepCopy()
		was.Status.Phase = corev1.ClaimBound
	}
	var name string
	if claim.Spec.StorageClassName != nil {
		name = *claim.Spec.StorageClassName
	}
	class := r.classes[name]
	if class != nil && class.AllowVolumeExpansion == nil {
		// A log does not keep the field. The API server has let the recorded change pass.
		allowed := true
		class = class.DeepCopy()
		class.AllowVolumeExpansion = &allowed
	}
	err := admission.CheckResize(was, claim, class)
	var refused *admission.Refusal
	if errors.As(err, &refused) {
		err = fmt.Errorf("%w: leave the growth of its request out, or give its StorageClass %q allowVolumeExpansion",
			err, name)
	}
	return err == nil, err
}

// AsksForMore reports whether a claim asks for more storage than it did before.
func AsksForMore(was, is *corev1.PersistentVolumeClaim) bool {
	before := was.Spec.Resources.Requests[corev1.ResourceStorage]
	return before.Cmp(is.Spec.Resources.Requests[corev1.ResourceStorage]) < 0
}
