package cluster

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// volumeKey names a PersistentVolume or a PersistentVolumeClaim.
type volumeKey struct {
	resource eventlog.Resource
	types.NamespacedName
}

func compareVolumeKeys(a, b volumeKey) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), compareKeys(a.NamespacedName, b.NamespacedName))
}

// volumeOverlay is a volume or claim that plugins see otherwise than it was logged, because placements that
// were decided have settled it and the cluster has not said so yet.
type volumeOverlay struct {
	// logged is the object as it was logged; the informer's store holds the changed one.
	logged eventlog.Object
	// holders are the pods whose placements rest on the change, sorted.
	holders []types.UID
}

// AssumeVolumes makes the claims of a decided placement visible to plugins: a claim with a Volume gets that
// PersistentVolume's claimRef, as kube-scheduler's binder would write it; one without gets the annotation
// that asks for provisioning on the node. The objects in the log are not touched.
//
// What is assumed lasts until ForgetVolumes for every pod that rests on it, or until the object is logged
// again with another content: then the log's word is the newer one. The same content again, as an informer's
// relist brings it, says nothing new and changes nothing.
//
// It is an error, after which nothing is assumed, if the pod holds volumes already, a claim or volume is
// missing, or one is settled otherwise.
func (f *Informers) AssumeVolumes(pod *v1.Pod, node string, vols []eventlog.VolumeClaim) error {
	if len(vols) == 0 {
		return nil
	}
	if len(f.held[pod.UID]) > 0 {
		return fmt.Errorf("assume volumes of pod %s/%s: it holds volumes already", pod.Namespace, pod.Name)
	}
	for _, vol := range vols {
		if err := f.assumeVolume(pod, node, vol); err != nil {
			f.ForgetVolumes(pod.UID)
			return fmt.Errorf("assume volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (f *Informers) assumeVolume(pod *v1.Pod, node string, vol eventlog.VolumeClaim) error {
	claim, ok := f.Get(eventlog.PersistentVolumeClaims, pod.Namespace, vol.Claim).(*v1.PersistentVolumeClaim)
	if !ok {
		return fmt.Errorf("claim %s is not there", vol.Claim)
	}
	if vol.Volume == "" {
		return f.assumeProvisioning(pod.UID, node, claim)
	}
	pv, ok := f.Get(eventlog.PersistentVolumes, "", vol.Volume).(*v1.PersistentVolume)
	if !ok {
		return fmt.Errorf("volume %s for claim %s is not there", vol.Volume, vol.Claim)
	}
	if pv.Spec.ClaimRef != nil && !volume.IsVolumeBoundToClaim(pv, claim) {
		return fmt.Errorf("volume %s for claim %s belongs to claim %s/%s", vol.Volume, vol.Claim,
			pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
	}
	bound, changed, err := volume.GetBindVolumeToClaim(pv, claim)
	if err != nil {
		return fmt.Errorf("bind volume %s to claim %s: %w", vol.Volume, vol.Claim, err)
	}
	key := volumeKey{eventlog.PersistentVolumes, keyOf(pv)}
	if !changed {
		f.share(pod.UID, key)
		return nil
	}
	return f.overlay(pod.UID, key, pv, bound)
}

func (f *Informers) assumeProvisioning(uid types.UID, node string, claim *v1.PersistentVolumeClaim) error {
	key := volumeKey{eventlog.PersistentVolumeClaims, keyOf(claim)}
	switch selected, ok := claim.Annotations[volume.AnnSelectedNode]; {
	case ok && selected == node:
		f.share(uid, key)
		return nil
	case ok:
		return fmt.Errorf("claim %s is being provisioned for node %s, not %s", claim.Name, selected, node)
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnSelectedNode, node)
	return f.overlay(uid, key, claim, changed)
}

// overlay puts changed in place of seen for the pod; seen may itself be an overlay of other pods.
func (f *Informers) overlay(uid types.UID, key volumeKey, seen, changed eventlog.Object) error {
	if _, err := f.factory.byResource[key.resource].put(changed); err != nil {
		return err
	}
	if _, ok := f.overlays[key]; !ok {
		f.overlays[key] = &volumeOverlay{logged: seen}
	}
	f.share(uid, key)
	return nil
}

// share makes the pod a holder of an overlay. Without one the log itself says what the pod needs.
func (f *Informers) share(uid types.UID, key volumeKey) {
	o, ok := f.overlays[key]
	if !ok {
		return
	}
	if at, found := slices.BinarySearch(o.holders, uid); !found {
		o.holders = slices.Insert(o.holders, at, uid)
		at, _ := slices.BinarySearchFunc(f.held[uid], key, compareVolumeKeys)
		f.held[uid] = slices.Insert(f.held[uid], at, key)
	}
}

// ForgetVolumes takes back what AssumeVolumes made visible for the pod, as far as no other pod rests on it
// and the log has not overruled it since. A pod that holds nothing is passed over.
func (f *Informers) ForgetVolumes(podUID types.UID) {
	keys := f.held[podUID]
	delete(f.held, podUID)
	for _, key := range keys {
		o := f.overlays[key]
		if at, found := slices.BinarySearch(o.holders, podUID); found {
			o.holders = slices.Delete(o.holders, at, at+1)
		}
		if len(o.holders) > 0 {
			continue
		}
		delete(f.overlays, key)
		if _, err := f.factory.byResource[key.resource].put(o.logged); err != nil {
			panic(
				fmt.Sprintf(
					"cluster: %s %s was logged and cannot be put back: %v",
					key.resource,
					key.NamespacedName,
					err,
				),
			)
		}
	}
}

// keepOverlay decides between an overlay and a newly logged object. It returns what plugins go on seeing if
// the overlay stays, and nil after dropping it, or if there is none.
func (f *Informers) keepOverlay(res eventlog.Resource, obj eventlog.Object) eventlog.Object {
	key := volumeKey{res, keyOf(obj)}
	o, ok := f.overlays[key]
	if !ok {
		return nil
	}
	if sameContent(obj, o.logged) {
		return f.factory.byResource[res].store.get(key.NamespacedName)
	}
	f.dropOverlay(key)
	return nil
}

// sameContent reports whether two objects are the same in the log. Resource versions would say it more cheaply,
// but logged objects need not have one.
func sameContent(a, b eventlog.Object) bool {
	x, err := eventlog.AppendObject(nil, a)
	if err != nil {
		return false
	}
	y, err := eventlog.AppendObject(nil, b)
	return err == nil && bytes.Equal(x, y)
}

// dropOverlay forgets an overlay without putting the logged object back: another one takes its place.
func (f *Informers) dropOverlay(key volumeKey) {
	o, ok := f.overlays[key]
	if !ok {
		return
	}
	delete(f.overlays, key)
	for _, uid := range o.holders {
		rest := slices.DeleteFunc(f.held[uid], func(k volumeKey) bool { return k == key })
		if len(rest) == 0 {
			delete(f.held, uid)
		} else {
			f.held[uid] = rest
		}
	}
}

func (f *Informers) appendOverlays(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(f.overlays)))
	for _, key := range slices.SortedFunc(maps.Keys(f.overlays), compareVolumeKeys) {
		o := f.overlays[key]
		dst = canonical.AppendString(dst, string(key.resource))
		dst = mustAppendObject(dst, f.Get(key.resource, key.Namespace, key.Name))
		dst = binary.AppendUvarint(dst, uint64(len(o.holders)))
		for _, uid := range o.holders {
			dst = canonical.AppendString(dst, string(uid))
		}
	}
	return dst
}
