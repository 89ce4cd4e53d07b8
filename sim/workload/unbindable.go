package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// mostUnbindable is the number of claims that get a note of their own.
const mostUnbindable = 10

// noteUnbindable notes the claims that nothing can ever bind: pods that use them would wait for ever. The first ones
// have a note of their own, the rest is counted.
func (in *input) noteUnbindable() {
	volumes, classes := []*corev1.PersistentVolume{}, map[string]*storagev1.StorageClass{}
	var claims []*corev1.PersistentVolumeClaim
	for _, plan := range in.workload.Objects {
		switch o := plan.Object.(type) {
		case *corev1.PersistentVolume:
			volumes = append(volumes, o)
		case *storagev1.StorageClass:
			classes[o.Name] = o
		case *corev1.PersistentVolumeClaim:
			claims = append(claims, o)
		}
	}
	n := 0
	for _, claim := range claims {
		why := whyUnbindable(claim, volumes, classes)
		if why == "" {
			continue
		}
		if n++; n <= mostUnbindable {
			in.note("claim %s can never be bound: %s", ObjectName(claim), why)
		}
	}
	if n > mostUnbindable {
		in.note("%s can never be bound", counted(n-mostUnbindable, "more claim", "more claims"))
	}
	in.noteMissing(claims)
}

// noteMissing notes the claims that pods use and nothing makes. Pods with a node are there already.
func (in *input) noteMissing(claims []*corev1.PersistentVolumeClaim) {
	known := map[string]bool{}
	for _, claim := range claims {
		known[ObjectName(claim)] = true
	}
	n := 0
	for i := range in.workload.Pods {
		plan := &in.workload.Pods[i]
		if plan.Template.Spec.NodeName != "" {
			continue
		}
		for _, v := range plan.Template.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			name := plan.Namespace + "/" + v.PersistentVolumeClaim.ClaimName
			if known[name] {
				continue
			}
			known[name] = true
			if n++; n <= mostUnbindable {
				in.note("claim %s is not in the files: no pod that uses it is ever placed (the first is %s)", name,
					plan.Name)
			}
		}
	}
	if n > mostUnbindable {
		in.note("%s not in the files", counted(n-mostUnbindable, "more claim is", "more claims are"))
	}
}

// whyUnbindable returns why nothing can ever bind a claim, "" if something may. It asks about each claim by itself:
// two claims may match one volume.
func whyUnbindable(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume,
	classes map[string]*storagev1.StorageClass) string {
	if name := claim.Spec.VolumeName; name != "" {
		if slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool { return v.Name == name }) {
			return ""
		}
		return fmt.Sprintf("volume %q is not in the files", name)
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	class := classes[name]
	if class != nil && class.Provisioner != volume.NotSupportedProvisioner {
		return ""
	}
	if pv, err := volume.FindMatchingVolume(claim, volumes, nil, nil, false, true); err != nil || pv != nil {
		return ""
	}
	switch {
	case name == "":
		return "it has no storage class, and no volume matches it"
	case class == nil:
		return fmt.Sprintf("storage class %q is not in the files, and no volume matches the claim", name)
	}
	return fmt.Sprintf("storage class %q has no provisioner, and no volume matches the claim", name)
}
