// Package volumes is the part of the cluster's state for PersistentVolumes and their claims. It shows them to plugins
// as decisions have changed them, until the cluster reports the change.
//
// It never decides which volume a claim gets: the plugin VolumeBinding does, and Recorder reads its results. Start
// reading at State.Assume.
package volumes

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

// Objects are the objects that plugins see.
type Objects interface {
	// Get returns an object, nil if there is none. Cluster-scoped objects have the namespace "".
	Get(res eventlog.Resource, namespace, name string) eventlog.Object
	// List returns a resource's objects by namespace and name.
	List(res eventlog.Resource) []eventlog.Object
	// Upsert stores an object and returns the one that it replaces, nil for none. It is an error if the object is not
	// of that resource.
	Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error)
	// Delete takes an object away and returns it, nil if there was none.
	Delete(res eventlog.Resource, namespace, name string) (old eventlog.Object)
}

// State is the state of volumes and claims after the entries applied so far. It is not safe for concurrent use.
type State struct {
	objects  Objects
	overlays map[key]*overlay
	held     map[types.UID][]key // the overlays that each pod holds, sorted
}

// key names a PersistentVolume or a PersistentVolumeClaim.
type key struct {
	resource eventlog.Resource
	types.NamespacedName
}

func keyOf(res eventlog.Resource, obj eventlog.Object) key {
	return key{res, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}

// overlay is a volume or claim that plugins see otherwise than it was logged, because placements that were decided have
// settled it and the cluster has not said so yet.
type overlay struct {
	// logged is the object as it was logged; plugins see the changed one.
	logged eventlog.Object
	// holders are the pods whose placements rest on the change, sorted.
	holders []types.UID
}

// New returns the state without any object; there must be no volumes and claims among the objects.
func New(objects Objects) *State {
	return &State{objects: objects, overlays: map[key]*overlay{}, held: map[types.UID][]key{}}
}

// resources are those whose objects a State keeps, in the order of its encoding.
var resources = []eventlog.Resource{eventlog.PersistentVolumeClaims, eventlog.PersistentVolumes}

// Keeps reports whether the objects of a resource are part of a State.
func Keeps(res eventlog.Resource) bool { return slices.Contains(resources, res) }

// Upsert takes in a volume or claim that is logged. It returns the object that plugins saw before, nil for none.
// Assumptions of decisions about the object give way to an object with another content.
func (s *State) Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error) {
	if len(s.overlays) > 0 {
		k := keyOf(res, obj)
		if o := s.overlays[k]; o != nil && sameContent(obj, o.logged) {
			return s.objects.Get(res, k.Namespace, k.Name), nil
		}
		s.drop(k)
	}
	return s.objects.Upsert(res, obj)
}

// Delete takes a volume or claim away. It returns the object that plugins saw before, nil for none.
func (s *State) Delete(res eventlog.Resource, namespace, name string) (old eventlog.Object) {
	s.drop(key{res, types.NamespacedName{Namespace: namespace, Name: name}})
	return s.objects.Delete(res, namespace, name)
}

// Logged returns a volume or claim that plugins see as it was logged.
func (s *State) Logged(res eventlog.Resource, obj eventlog.Object) eventlog.Object {
	if o := s.overlays[keyOf(res, obj)]; o != nil {
		return o.logged
	}
	return obj
}

// Assume makes the claims of a decided placement visible to plugins. For a claim with a Volume, plugins see that
// PersistentVolume with a claimRef to the claim, as kube-scheduler's binder would write it. A claim without one gets
// the annotation that asks for provisioning on the node. The objects in the log do not change.
//
// An assumption lasts until Forget for every pod that depends on it, or until the object is logged again with another
// content: then the log is newer. The same content again, as an informer's relist brings it, changes nothing.
//
// Assume fails, and assumes nothing, if the pod holds volumes already, or if a claim or a volume does not exist. It
// also fails if a volume belongs to another claim, or a claim is being provisioned for another node.
func (s *State) Assume(pod *v1.Pod, node string, vols []eventlog.VolumeClaim) error {
	if len(vols) == 0 {
		return nil
	}
	if len(s.held[pod.UID]) > 0 {
		return fmt.Errorf("assume volumes of pod %s/%s: it holds volumes already", pod.Namespace, pod.Name)
	}
	for _, vol := range vols {
		if err := s.assume(pod, node, vol); err != nil {
			s.Forget(pod.UID)
			return fmt.Errorf("assume volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (s *State) assume(pod *v1.Pod, node string, vol eventlog.VolumeClaim) error {
	claim, ok := s.objects.Get(eventlog.PersistentVolumeClaims, pod.Namespace, vol.Claim).(*v1.PersistentVolumeClaim)
	if !ok {
		return fmt.Errorf("claim %s is not there", vol.Claim)
	}
	if vol.Volume == "" {
		return s.assumeProvisioning(pod.UID, node, claim)
	}
	pv, ok := s.objects.Get(eventlog.PersistentVolumes, "", vol.Volume).(*v1.PersistentVolume)
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
	k := keyOf(eventlog.PersistentVolumes, pv)
	if !changed {
		s.share(pod.UID, k)
		return nil
	}
	return s.lay(pod.UID, k, pv, bound)
}

func (s *State) assumeProvisioning(uid types.UID, node string, claim *v1.PersistentVolumeClaim) error {
	k := keyOf(eventlog.PersistentVolumeClaims, claim)
	switch selected, ok := claim.Annotations[volume.AnnSelectedNode]; {
	case ok && selected == node:
		s.share(uid, k)
		return nil
	case ok:
		return fmt.Errorf("claim %s is being provisioned for node %s, not %s", claim.Name, selected, node)
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnSelectedNode, node)
	return s.lay(uid, k, claim, changed)
}

// lay puts changed in place of seen for the pod; seen may itself be an overlay of other pods.
func (s *State) lay(uid types.UID, k key, seen, changed eventlog.Object) error {
	if _, err := s.objects.Upsert(k.resource, changed); err != nil {
		return err
	}
	if _, ok := s.overlays[k]; !ok {
		s.overlays[k] = &overlay{logged: seen}
	}
	s.share(uid, k)
	return nil
}

// share makes the pod a holder of an overlay. Without one the log itself says what the pod needs.
func (s *State) share(uid types.UID, k key) {
	o, ok := s.overlays[k]
	if !ok {
		return
	}
	if at, found := slices.BinarySearch(o.holders, uid); !found {
		o.holders = slices.Insert(o.holders, at, uid)
		at, _ := slices.BinarySearchFunc(s.held[uid], k, compareKeys)
		s.held[uid] = slices.Insert(s.held[uid], at, k)
	}
}

// Forget takes back what Assume made visible for the pod, as far as no other pod rests on it and the log has not
// overruled it since. A pod that holds nothing is ignored.
func (s *State) Forget(pod types.UID) {
	keys := s.held[pod]
	delete(s.held, pod)
	for _, k := range keys {
		o := s.overlays[k]
		if at, found := slices.BinarySearch(o.holders, pod); found {
			o.holders = slices.Delete(o.holders, at, at+1)
		}
		if len(o.holders) > 0 {
			continue
		}
		delete(s.overlays, k)
		if _, err := s.objects.Upsert(k.resource, o.logged); err != nil {
			panic(fmt.Sprintf("volumes: %s %s was logged and cannot be put back: %v", k.resource, k.NamespacedName,
				err))
		}
	}
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

// drop forgets an overlay without putting the logged object back: another one takes its place.
func (s *State) drop(k key) {
	o, ok := s.overlays[k]
	if !ok {
		return
	}
	delete(s.overlays, k)
	for _, uid := range o.holders {
		rest := slices.DeleteFunc(s.held[uid], func(other key) bool { return other == k })
		if len(rest) == 0 {
			delete(s.held, uid)
		} else {
			s.held[uid] = rest
		}
	}
}

// AppendState appends the volumes and claims, each as it was logged, and what decisions assumed of them, in one
// canonical form.
func (s *State) AppendState(dst []byte) ([]byte, error) {
	var err error
	for _, res := range resources {
		objects := s.objects.List(res)
		dst = binary.AppendUvarint(dst, uint64(len(objects)))
		for _, obj := range objects {
			if dst, err = appendObject(dst, s.Logged(res, obj)); err != nil {
				return nil, fmt.Errorf("%s %s: %w", res, obj.GetName(), err)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.overlays)))
	for _, k := range slices.SortedFunc(maps.Keys(s.overlays), compareKeys) {
		dst = canonical.AppendString(dst, string(k.resource))
		if dst, err = appendObject(dst, s.objects.Get(k.resource, k.Namespace, k.Name)); err != nil {
			return nil, fmt.Errorf("assumed %s %s: %w", k.resource, k.Name, err)
		}
		holders := s.overlays[k].holders
		dst = binary.AppendUvarint(dst, uint64(len(holders)))
		for _, uid := range holders {
			dst = canonical.AppendString(dst, string(uid))
		}
	}
	return dst, nil
}

// Restore fills s, which must be empty, from the bytes that AppendState wrote. It validates the bytes only as far as it
// must to avoid a panic.
func (s *State) Restore(r *canonical.Reader) error {
	for _, res := range resources {
		for range r.Count(string(res), 1) {
			obj, err := readObject(r, res)
			if err != nil {
				return err
			}
			if _, err := s.Upsert(res, obj); err != nil {
				return err
			}
		}
	}
	for range r.Count("assumed volumes", 3) {
		res := eventlog.Resource(r.String("resource"))
		if !Keeps(res) {
			r.Fail("assumed volumes", fmt.Errorf("resource %q", res))
			return r.Err()
		}
		changed, err := readObject(r, res)
		if err != nil {
			return err
		}
		k := keyOf(res, changed)
		logged := s.objects.Get(res, k.Namespace, k.Name)
		if logged == nil || s.overlays[k] != nil {
			return fmt.Errorf("assumed %s %s: it is not logged, or assumed twice", res, k.NamespacedName)
		}
		for range r.Count("holders", 1) {
			if err := s.lay(types.UID(r.String("holder")), k, logged, changed); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

// appendObject appends the object behind its length.
func appendObject(dst []byte, obj eventlog.Object) ([]byte, error) {
	b, err := eventlog.AppendObject(nil, obj)
	return canonical.AppendBytes(dst, b), err
}

func readObject(r *canonical.Reader, res eventlog.Resource) (eventlog.Object, error) {
	b := r.Bytes(string(res))
	if err := r.Err(); err != nil {
		return nil, err
	}
	var decoder *eventlog.Decoder
	obj, memory, err := decoder.Object(res, b, r.Memory())
	r.Fail("object", err)
	r.Take("object", memory)
	return obj, r.Err()
}
