package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// If a node lacks several CSI drivers, the reason names the driver of the pod's first volume. kube-scheduler names any
// of them, because it ranges over a map: a replay would differ.
func TestTheMissingDriverThatIsNamedIsTheFirst(t *testing.T) {
	m := scheduler.New(plugins.NewRegistry())
	apply := func(p eventlog.Payload) {
		t.Helper()
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1,
			Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0)), Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(r eventlog.Resource, obj eventlog.Object) {
		t.Helper()
		obj.SetUID(types.UID(obj.GetName()))
		apply(&eventlog.Upserted{Resource: r, Object: obj})
	}
	apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: defaultConfig(t),
		Behaviour: scheduler.Behaviour})
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9"), v1.ResourcePods: resource.MustParse("99")}
	put(eventlog.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: v1.NodeStatus{Allocatable: list, Capacity: list}})
	var volumes []v1.Volume
	for i := range 4 {
		name := fmt.Sprintf("driver-%d", 3-i)
		put(eventlog.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(i > 0)}})
		put(eventlog.PersistentVolumes, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
			Spec: v1.PersistentVolumeSpec{
				PersistentVolumeSource: v1.PersistentVolumeSource{
					CSI: &v1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "h"}},
				ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(name)}}})
		put(eventlog.PersistentVolumeClaims, &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:   v1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}})
		volumes = append(volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	const want = "driver-2 CSI driver is not installed on the node"
	for i := range 10 {
		put(eventlog.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i)},
			Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}},
				Volumes: volumes}})
		d, ok := m.Decide(nil)
		if !ok || d.Outcome != eventlog.Unschedulable || len(d.Rejections) != 1 || d.Rejections[0].Reason != want {
			t.Fatalf("pod %d: %t %v %+v", i, ok, d.Outcome, d.Rejections)
		}
		apply(&d)
	}
}
