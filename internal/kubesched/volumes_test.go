package kubesched_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestVolumesAreUpstreams compares decisions on pods with volumes: the feasible nodes, the reasons, the scores, the
// node and the volumes must be kube-scheduler's.
func TestVolumesAreUpstreams(t *testing.T) {
	seen := run(t, shape{volumes: true}, worldsOf(90))
	check(t, seen, 5, "scheduled", "volume is bound", "volume is provisioned",
		"PreFilter VolumeBinding", "Filter VolumeBinding", "Filter VolumeZone", "Filter NodeVolumeLimits",
		"PreFilter VolumeRestrictions", "Filter VolumeRestrictions", "Score VolumeBinding",
		"Filter VolumeBinding: node(s) did not have enough free storage",
		"Filter VolumeBinding: node(s) didn't find available persistent volumes to bind",
		"Filter VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
		"PreFilter VolumeBinding: pod has unbound immediate PersistentVolumeClaims")
}

func gigabytes(n int) resource.Quantity { return resource.MustParse(fmt.Sprintf("%dGi", n)) }

const driverA, driverB = "a.csi.example.com", "b.csi.example.com"

// classes are the StorageClasses. The first letter of a name says whether a volume waits for its first consumer.
var classes = []string{"wait-none", "wait-a", "wait-b", "now-a", "now-none"}

func provisioner(class string) string {
	switch class[len(class)-1] {
	case 'a':
		return driverA
	case 'b':
		return driverB
	}
	return "kubernetes.io/no-provisioner"
}

func (d *duel) makeVolumes() {
	for _, name := range classes {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner(name)}
		class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		if name[0] == 'n' {
			class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
		}
		if name == "wait-b" && !d.oneIn(3) {
			in := v1.TopologySelectorLabelRequirement{Key: v1.LabelTopologyZone,
				Values: []string{zone(0), zone(d.n(0, 2))}}
			class.AllowedTopologies = []v1.TopologySelectorTerm{
				{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{in}}}
		}
		d.put(class)
	}
	for _, name := range []string{driverA, driverB} {
		if d.oneIn(6) {
			continue
		}
		driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
		driver.Spec.StorageCapacity = ptr.To(d.oneIn(2))
		if d.oneIn(3) {
			driver.Spec.PreventPodSchedulingIfMissing = ptr.To(d.oneIn(2))
		}
		d.put(driver)
	}
	for _, node := range all[*v1.Node](d) {
		if d.oneIn(8) {
			continue
		}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		for _, name := range []string{driverA, driverB} {
			if d.oneIn(6) {
				continue
			}
			driver := storagev1.CSINodeDriver{Name: name, NodeID: node.Name}
			if !d.oneIn(4) {
				driver.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(d.n(0, 4)))}
			}
			csi.Spec.Drivers = append(csi.Spec.Drivers, driver)
		}
		d.put(csi)
	}
	for range d.n(0, 5) {
		d.put(d.newCapacity())
	}
	for range d.n(1, 7) {
		d.put(d.newVolume())
	}
	for range d.n(2, 9) {
		d.makeClaim(d.name("claim"), nil)
	}
}

func (d *duel) newCapacity() *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: namespace, Name: d.name("capacity")},
		StorageClassName: one(d, "wait-a", "wait-b"),
		NodeTopology: &metav1.LabelSelector{
			MatchLabels: map[string]string{v1.LabelTopologyZone: zone(d.n(0, 2))}},
	}
	if !d.oneIn(6) {
		c.Capacity = ptr.To(gigabytes(d.n(1, 20)))
	}
	if d.oneIn(4) {
		c.MaximumVolumeSize = ptr.To(gigabytes(d.n(1, 10)))
	}
	return c
}

// near returns the affinity of a volume: to a node, to a zone, or none.
func (d *duel) near() *v1.VolumeNodeAffinity {
	var at v1.NodeSelectorRequirement
	switch d.n(0, 3) {
	case 0:
		return nil
	case 1:
		at = v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Values: []string{zone(d.n(0, 2))}}
	default:
		at = v1.NodeSelectorRequirement{Key: v1.LabelHostname, Values: []string{one(d, all[*v1.Node](d)...).Name}}
	}
	at.Operator = v1.NodeSelectorOpIn
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{at}}}}}
}

func (d *duel) newVolume() *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: d.name("pv"), Labels: map[string]string{}}}
	pv.Spec = v1.PersistentVolumeSpec{
		Capacity:         v1.ResourceList{v1.ResourceStorage: gigabytes(d.n(1, 12))},
		AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		StorageClassName: one(d, "wait-none", "wait-none", "wait-a", "now-none", "now-a"),
		NodeAffinity:     d.near(),
		VolumeMode:       ptr.To(v1.PersistentVolumeFilesystem),
	}
	if d.oneIn(2) {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, v1.ReadWriteMany, v1.ReadWriteOncePod)
	}
	if d.oneIn(6) {
		pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	}
	if d.oneIn(4) {
		pv.Labels["kind"] = "fast"
	}
	if d.oneIn(4) {
		pv.Labels[v1.LabelTopologyZone] = zone(d.n(0, 2))
	}
	if driver := provisioner(pv.Spec.StorageClassName); driver == driverA {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprintf("h%d", d.n(0, 9))}
	} else {
		pv.Spec.Local = &v1.LocalVolumeSource{Path: "/mnt"}
	}
	pv.Status.Phase = v1.VolumeAvailable
	if d.oneIn(10) {
		pv.Status.Phase = v1.VolumeReleased
	}
	return pv
}

// makeClaim makes a claim; some are bound, and some of the bound ones are shared by pods.
func (d *duel) makeClaim(name string, owner *v1.Pod) {
	pvc := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pvc.Spec = v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{
			one(d, v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteMany, v1.ReadWriteOncePod)},
		StorageClassName: ptr.To(one(d, classes...)),
		VolumeMode:       ptr.To(v1.PersistentVolumeFilesystem),
		Resources: v1.VolumeResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceStorage: gigabytes(d.n(1, 8))}},
	}
	if (*pvc.Spec.StorageClassName)[0] == 'n' && d.oneIn(2) {
		pvc.Spec.StorageClassName = ptr.To("wait-a")
	}
	pvc.Status.Phase = v1.ClaimPending
	if owner != nil {
		pvc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name,
			UID: podUID(owner.Name), Controller: ptr.To(true)}}
		if d.oneIn(10) {
			pvc.OwnerReferences[0].UID = "another"
		}
	}
	switch d.n(0, 15) {
	case 0:
		pvc.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "fast"}}
	case 1:
		pvc.Spec.StorageClassName = ptr.To("missing")
	case 2:
		pvc.DeletionTimestamp = &metav1.Time{Time: d.now}
	case 3:
		pvc.Spec.VolumeName, pvc.Status.Phase = "lost", v1.ClaimLost
	case 4:
		pvc.Annotations = map[string]string{volume.AnnSelectedNode: one(d, all[*v1.Node](d)...).Name}
	case 5:
		pvc.Spec.StorageClassName = ptr.To("")
	}
	d.put(pvc)
	if pvc.Spec.VolumeName == "" && pvc.Annotations == nil && d.oneIn(3) {
		pv := d.newVolume()
		pv.Spec.Capacity, pv.Spec.AccessModes = pvc.Spec.Resources.Requests, pvc.Spec.AccessModes
		pv.Spec.StorageClassName = *pvc.Spec.StorageClassName
		d.bind(pvc, pv)
	}
}

// bind binds a claim and a volume to each other, as the PersistentVolume controller does.
func (d *duel) bind(pvc *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	pvc, pv = pvc.DeepCopy(), pv.DeepCopy()
	pv.Spec.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: pvc.Namespace,
		Name: pvc.Name, UID: pvc.UID}
	pv.Status.Phase = v1.VolumeBound
	pvc.Spec.VolumeName = pv.Name
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, volume.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, volume.AnnBoundByController, "yes")
	pvc.Status.Phase = v1.ClaimBound
	d.put(pv)
	d.put(pvc)
}

func (d *duel) addVolumes(p *v1.Pod) {
	claims := all[*v1.PersistentVolumeClaim](d)
	for i := range d.n(1, 3) {
		v := v1.Volume{Name: fmt.Sprintf("v%d", i)}
		switch n := d.n(0, 19); {
		case n < 6 && len(claims) > 0:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: one(d, claims...).Name}
		case n < 15:
			name := d.name("claim")
			d.makeClaim(name, nil)
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		case n < 16:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}
		case n < 18:
			v.Ephemeral = &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}
			d.makeClaim(p.Name+"-"+v.Name, p)
		case n < 19:
			v.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: one(d, "d1", "d2"), ReadOnly: d.oneIn(3)}
		default:
			v.CSI = &v1.CSIVolumeSource{Driver: one(d, driverA, driverB)}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

// landVolumes binds the volumes of a pod, or provisions them near its node.
func (d *duel) landVolumes(f flight) {
	for _, v := range f.volumes {
		pvc, ok := get[*v1.PersistentVolumeClaim](d, namespace, v.Claim)
		if !ok {
			d.fatalf("claim %s is gone", v.Claim)
		}
		if pvc.Spec.VolumeName != "" {
			continue // another pod has it too
		}
		if v.Volume != "" {
			pv, _ := get[*v1.PersistentVolume](d, "", v.Volume)
			d.bind(pvc, pv)
			continue
		}
		metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, volume.AnnSelectedNode, f.node)
		d.put(pvc)
		d.provision(pvc, f.node)
	}
}

// provision makes a volume for a claim that a node can use.
func (d *duel) provision(pvc *v1.PersistentVolumeClaim, node string) {
	pv := d.newVolume()
	pv.Labels = nil
	pv.Spec.Capacity, pv.Spec.AccessModes = pvc.Spec.Resources.Requests, pvc.Spec.AccessModes
	pv.Spec.StorageClassName, pv.Spec.VolumeMode = *pvc.Spec.StorageClassName, pvc.Spec.VolumeMode
	pv.Spec.NodeAffinity, pv.Spec.Local = nil, nil
	if n, ok := get[*v1.Node](d, "", node); ok {
		key := one(d, v1.LabelHostname, v1.LabelTopologyZone)
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{n.Labels[key]}}}}}}}
	}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: provisioner(pv.Spec.StorageClassName), VolumeHandle: pv.Name}
	d.bind(pvc, pv)
}

// bindImmediately binds a claim that does not wait for a pod.
func (d *duel) bindImmediately() {
	for _, pvc := range all[*v1.PersistentVolumeClaim](d) {
		class := *pvc.Spec.StorageClassName
		if pvc.Spec.VolumeName != "" || class != "now-a" || pvc.DeletionTimestamp != nil {
			continue
		}
		d.provision(pvc, one(d, "", all[*v1.Node](d)[0].Name))
		return
	}
}

// changeStorage changes the objects of storage.
func (d *duel) changeStorage() {
	switch d.n(0, 3) {
	case 0:
		d.put(d.newVolume())
	case 1:
		d.put(d.newCapacity())
	case 2:
		list := all[*storagev1.CSIStorageCapacity](d)
		if len(list) == 0 {
			return
		}
		c := one(d, list...).DeepCopy()
		c.Capacity = ptr.To(gigabytes(d.n(1, 20)))
		d.put(c)
	case 3:
		free := slices.DeleteFunc(all[*v1.PersistentVolume](d), func(pv *v1.PersistentVolume) bool {
			return pv.Spec.ClaimRef != nil || slices.ContainsFunc(d.flying, func(f flight) bool {
				return slices.ContainsFunc(f.volumes, func(v eventlog.VolumeClaim) bool { return v.Volume == pv.Name })
			})
		})
		if len(free) > 0 {
			d.remove(one(d, free...))
		}
	}
}
