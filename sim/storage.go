package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// storage plays the PersistentVolume controller and a provisioner.
type storage struct {
	changed bool                                        // since bindAtOnce ran
	claims  map[[2]string]*corev1.PersistentVolumeClaim // by namespace and name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	// growing are the claims whose request has grown, with their new request.
	growing map[[2]string]resource.Quantity
}

func newStorage() storage {
	return storage{
		claims:  map[[2]string]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{},
		growing: map[[2]string]resource.Quantity{},
	}
}

// remember keeps an object about storage.
func (s *storage) remember(o eventlog.Object) {
	s.changed = true
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		s.claims[[2]string{o.Namespace, o.Name}] = o
	case *corev1.PersistentVolume:
		s.volumes[o.Name] = o
	case *storagev1.StorageClass:
		s.classes[o.Name] = o
	}
}

// forget drops an object that was deleted.
func (s *storage) forget(resource eventlog.Resource, namespace, name string) {
	s.changed = true
	switch resource {
	case eventlog.PersistentVolumeClaims:
		delete(s.claims, [2]string{namespace, name})
		delete(s.growing, [2]string{namespace, name})
	case eventlog.PersistentVolumes:
		delete(s.volumes, name)
	case eventlog.StorageClasses:
		delete(s.classes, name)
	}
}

// holdsUp reports whether an object is a claim that exists with a smaller request. expand gives it the new request. Its
// other fields, such as its volume, stay as the simulation has made them.
func (s *storage) holdsUp(o eventlog.Object) bool {
	claim, is := o.(*corev1.PersistentVolumeClaim)
	if !is {
		return false
	}
	key := [2]string{claim.Namespace, claim.Name}
	was := s.claims[key]
	if was == nil || was.UID != claim.UID || !workload.AsksForMore(was, claim) {
		return false
	}
	s.growing[key] = claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return true
}

// expand lets the claims grow whose request has grown, as the external resizer does, and returns the resulting inputs.
// Only bound claims grow. One that the recorded cluster had bound earlier grows when it is bound here.
func (s *storage) expand() (inputs []eventlog.Payload) {
	keys := slices.SortedFunc(maps.Keys(s.growing), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		claim, size := s.claims[key], s.growing[key]
		pv := s.volumes[claim.Spec.VolumeName]
		if pv == nil || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			continue
		}
		delete(s.growing, key)
		if has := pv.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(size) < 0 {
			pv = pv.DeepCopy()
			pv.Spec.Capacity[corev1.ResourceStorage] = size
			s.remember(pv)
			inputs = append(inputs, upserted(eventlog.PersistentVolumes, pv))
		}
		claim = claim.DeepCopy()
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: pv.Spec.Capacity[corev1.ResourceStorage]}
		s.remember(claim)
		inputs = append(inputs, upserted(eventlog.PersistentVolumeClaims, claim))
	}
	return inputs
}

// bindAtOnce binds the claims that wait for no consumer, and returns the resulting inputs. Their class has the binding
// mode Immediate, or they have no class, or they name a volume, or a volume names them.
func (s *storage) bindAtOnce(now time.Time) (inputs []eventlog.Payload, err error) {
	if !s.changed {
		return nil, nil
	}
	volumes := make([]*corev1.PersistentVolume, 0, len(s.volumes))
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		volumes = append(volumes, s.volumes[name])
	}
	keys := slices.SortedFunc(maps.Keys(s.claims), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		claim := s.claims[key]
		if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			continue
		}
		pv, err := s.volumeAtOnce(claim, volumes, now)
		if err != nil {
			return nil, err
		}
		if pv == nil {
			continue
		}
		volumes = slices.DeleteFunc(volumes, func(v *corev1.PersistentVolume) bool { return v.Name == pv.Name })
		volumes = append(volumes, pv)
		bound := boundClaim(claim, pv.Name, "", false)
		s.remember(pv)
		s.remember(bound)
		inputs = append(inputs, upserted(eventlog.PersistentVolumes, pv),
			upserted(eventlog.PersistentVolumeClaims, bound))
	}
	s.changed = false
	return inputs, nil
}

// volumeAtOnce returns the volume, bound to a claim that waits for no consumer; nil if there is none.
func (s *storage) volumeAtOnce(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume,
	now time.Time) (*corev1.PersistentVolume, error) {
	if name := claim.Spec.VolumeName; name != "" {
		if pv, err := s.volumeFor(claim, name, nil, now); err == nil {
			return pv, nil
		}
		return nil, nil // the volume is another claim's, or will come
	}
	class := s.classes[volume.GetPersistentVolumeClaimClass(claim)]
	waits := class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	pv, err := volume.FindMatchingVolume(claim, volumes, nil, nil, waits, true)
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	case pv != nil:
		return s.volumeFor(claim, pv.Name, nil, now)
	case waits || class == nil || class.Provisioner == volume.NotSupportedProvisioner:
		return nil, nil
	}
	return s.volumeFor(claim, "", nil, now)
}

// bindClaims binds the claims of a placement on a node, all or none, and returns the resulting inputs.
func (s *storage) bindClaims(namespace string, wanted []eventlog.VolumeClaim, node *corev1.Node,
	now time.Time) ([]eventlog.Payload, error) {
	var volumes []*corev1.PersistentVolume
	var claims []*corev1.PersistentVolumeClaim
	taken := map[string]string{}
	for _, w := range wanted {
		claim := s.claims[[2]string{namespace, w.Claim}]
		if claim == nil {
			return nil, fmt.Errorf("claim %s/%s is gone", namespace, w.Claim)
		}
		if claim.Spec.VolumeName != "" {
			if w.Volume != "" && claim.Spec.VolumeName != w.Volume {
				return nil, fmt.Errorf("claim %s/%s is bound to volume %s", namespace, w.Claim, claim.Spec.VolumeName)
			}
			continue
		}
		pv, err := s.volumeFor(claim, w.Volume, node, now)
		if err != nil {
			return nil, err
		}
		if other, is := taken[pv.Name]; is {
			return nil, fmt.Errorf("volume %s is given to the claims %s and %s", pv.Name, other, claim.Name)
		}
		taken[pv.Name] = claim.Name
		volumes = append(volumes, pv)
		claims = append(claims, boundClaim(claim, pv.Name, node.Name, w.Volume == ""))
	}
	var inputs []eventlog.Payload
	for i := range claims {
		s.remember(volumes[i])
		s.remember(claims[i])
		inputs = append(inputs, upserted(eventlog.PersistentVolumes, volumes[i]),
			upserted(eventlog.PersistentVolumeClaims, claims[i]))
	}
	return inputs, nil
}

// volumeFor returns the volume, bound to the claim: the named one, or one provisioned for the node, or for any node if
// it is nil.
func (s *storage) volumeFor(claim *corev1.PersistentVolumeClaim, name string, node *corev1.Node,
	now time.Time) (*corev1.PersistentVolume, error) {
	ref := &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1",
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	if name == "" {
		return s.provision(claim, ref, node, now)
	}
	pv := s.volumes[name]
	if pv == nil {
		return nil, fmt.Errorf("volume %s is gone", name)
	}
	if r := pv.Spec.ClaimRef; r != nil &&
		(r.Namespace != claim.Namespace || r.Name != claim.Name || r.UID != "" && r.UID != claim.UID) {
		return nil, fmt.Errorf("volume %s is bound to claim %s/%s", name, r.Namespace, r.Name)
	}
	bound := pv.DeepCopy()
	if bound.Spec.ClaimRef == nil {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volume.AnnBoundByController, "yes")
	}
	bound.Spec.ClaimRef = ref
	bound.Status.Phase = corev1.VolumeBound
	return bound, nil
}

// provision makes the volume that the claim's class would provision. It can be reached from the node only, or from all
// that the class allows if the node is nil.
func (s *storage) provision(claim *corev1.PersistentVolumeClaim, ref *corev1.ObjectReference, node *corev1.Node,
	now time.Time) (*corev1.PersistentVolume, error) {
	className := volume.GetPersistentVolumeClaimClass(claim)
	class := s.classes[className]
	if class == nil {
		return nil, fmt.Errorf("claim %s/%s: storage class %q is gone", claim.Namespace, claim.Name, className)
	}
	mode := corev1.PersistentVolumeFilesystem
	if claim.Spec.VolumeMode != nil {
		mode = *claim.Spec.VolumeMode
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	name := "pvc-" + string(claim.UID)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: workload.UID(eventlog.PersistentVolumes, "", name), CreationTimestamp: metav1.NewTime(now),
			Annotations: map[string]string{volume.AnnDynamicallyProvisioned: class.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, ClaimRef: ref, StorageClassName: className,
			PersistentVolumeReclaimPolicy: reclaim, MountOptions: class.MountOptions, VolumeMode: &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: name},
			},
			NodeAffinity: reachableFrom(node, class),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	return pv, nil
}

// reachableFrom returns the nodes from which a volume of the class can be reached: one node, or all that the class
// allows if it is nil.
func reachableFrom(node *corev1.Node, class *storagev1.StorageClass) *corev1.VolumeNodeAffinity {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	var terms []corev1.NodeSelectorTerm
	if node != nil {
		hostname := cmp.Or(node.Labels[corev1.LabelHostname], node.Name)
		terms = []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{in(corev1.LabelHostname, hostname)}}}
	} else {
		for _, t := range class.AllowedTopologies {
			var term corev1.NodeSelectorTerm
			for _, e := range t.MatchLabelExpressions {
				term.MatchExpressions = append(term.MatchExpressions, in(e.Key, e.Values...))
			}
			terms = append(terms, term)
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

// boundClaim returns the claim as the controller leaves it: bound to the volume.
func boundClaim(claim *corev1.PersistentVolumeClaim, volumeName, nodeName string,
	provisioned bool) *corev1.PersistentVolumeClaim {
	bound := claim.DeepCopy()
	bound.Spec.VolumeName = volumeName
	bound.Status.Phase = corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volume.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volume.AnnBoundByController, "yes")
	if provisioned {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volume.AnnSelectedNode, nodeName)
	}
	return bound
}
