package devices_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// A trial frees the devices of a claim if every user goes. Users are the pods that it is reserved for, pods on nodes
// that name it, pods whose placements depend on it, and the pod that it was made for. A claim without users, or one
// that is reserved for something else than pods, keeps its devices: nobody gives them back.
func TestATrialFreesDevicesOfWhichEveryUserGoes(t *testing.T) {
	reserved := func(claim *resourcev1.ResourceClaim, resource string, uids ...types.UID) *resourcev1.ResourceClaim {
		for _, uid := range uids {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: resource, Name: string(uid), UID: uid})
		}
		return claim
	}
	of := func(claim *resourcev1.ResourceClaim, pod *v1.Pod) *resourcev1.ResourceClaim {
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		return claim
	}
	stays := func(uid types.UID) bool { return uid != "goes" && uid != "goes-too" }
	staying := podWithDevices("c")
	staying.Spec.NodeName = "n"
	for name, c := range map[string]struct {
		claim   *resourcev1.ResourceClaim
		pod     *v1.Pod   // that is on a node
		assumed types.UID // the pod whose placement rests on the claim
		free    bool
	}{
		"all go":               {claim: reserved(deviceClaim("c", "a"), "pods", "goes", "goes-too"), free: true},
		"one stays":            {claim: reserved(deviceClaim("c", "a"), "pods", "goes", "stays")},
		"nobody":               {claim: deviceClaim("c", "a")},
		"a group":              {claim: reserved(deviceClaim("c", "a"), "podgroups", "goes")},
		"one names it":         {claim: reserved(deviceClaim("c", "a"), "pods", "goes"), pod: staying},
		"one rests on it":      {claim: deviceClaim("c"), assumed: "stays"},
		"who rests on it goes": {claim: deviceClaim("c"), assumed: "goes", free: true},
		"its pod stays": {claim: of(reserved(deviceClaim("c", "a"), "pods", "goes"),
			&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "stays"}})},
	} {
		s := cluster.New()
		upsert := func(res eventlog.Resource, obj eventlog.Object) {
			if _, err := s.Upsert(res, obj); err != nil {
				t.Fatal(err)
			}
		}
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: ptr.To("n"),
			Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}
		upsert(eventlog.ResourceSlices, slice)
		upsert(eventlog.ResourceClaims, c.claim)
		if c.pod != nil {
			if _, err := s.UpsertPod(c.pod); err != nil {
				t.Fatal(err)
			}
		}
		if c.assumed != "" {
			d, err := eventlog.NewDeviceClaim(deviceClaim("c", "a"))
			if err == nil {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: c.assumed}}
				_, err = s.Devices().Assume(pod, []eventlog.DeviceClaim{d})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		inUse := func() bool {
			used, err := devices.ForAllocator(s.Devices()).ResourceClaims().GatherAllocatedState()
			return err == nil && used.AllocatedDevices.Has(structured.MakeDeviceID("d", "p", "a"))
		}
		if !inUse() {
			t.Errorf("%s: the device is not in use before", name)
		}
		trial := s.Devices().Try("n")
		trial.Free(stays)
		seen, err := s.Devices().ResourceClaims().Get("ns", "c")
		if err != nil || inUse() == c.free || (seen.Status.Allocation == nil) != c.free {
			t.Errorf("%s: the device is in use: %v; the claim is %v (%v)", name, inUse(), seen, err)
		}
		if trial.End(); !inUse() {
			t.Errorf("%s: the device is not in use after", name)
		}
	}
}

// A pod that has a node uses the claim of its PodGroup, also before the claim is reserved, and also if it was made of a
// template. The pod counts like a pod that names the claim.
func TestAClaimOfAPodGroupHasItsPodsAsUsers(t *testing.T) {
	s := cluster.New()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: ptr.To("n"),
		Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}
	claim := deviceClaim("c", "a")
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(
		&metav1.ObjectMeta{Name: "g", UID: "g"}, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "goes", UID: "goes"}}
	for res, obj := range map[eventlog.Resource]eventlog.Object{
		eventlog.ResourceSlices: slice, eventlog.ResourceClaims: claim} {
		if _, err := s.Upsert(res, obj); err != nil {
			t.Fatal(err)
		}
	}
	member := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m"}}
	member.Spec.NodeName, member.Spec.SchedulingGroup = "n", &v1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
	member.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
	member.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: ptr.To("c")}}
	frees := func() bool {
		trial := s.Devices().Try("n")
		defer trial.End()
		trial.Free(func(uid types.UID) bool { return uid != "goes" })
		seen, err := s.Devices().ResourceClaims().Get("ns", "c")
		return err == nil && seen.Status.Allocation == nil
	}
	if !frees() {
		t.Error("the device stays although its only user goes")
	}
	if _, err := s.UpsertPod(member); err != nil {
		t.Fatal(err)
	}
	shared := devices.SharedClaims(s.Devices(), member)
	if frees() || !slices.Contains(shared, "c") {
		t.Errorf("with a pod of the PodGroup the device comes free: %v; it shares %v", frees(), shared)
	}
	// The only other user is gone: the device was about to come free.
	if nodes := s.TakeChanges().Devices.Taken; !slices.Equal(nodes, []string{"n"}) {
		t.Errorf("devices of %v are taken", nodes)
	}
	full := claim.DeepCopy()
	for i := range resourcev1.ResourceClaimReservedForMaxSize - 1 {
		full.Status.ReservedFor = append(full.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(strconv.Itoa(i))})
	}
	if _, err := s.Upsert(eventlog.ResourceClaims, full); err != nil {
		t.Fatal(err)
	}
	other := member.DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "other", "other", ""
	if why := s.Devices().FullClaim(other); why == "" {
		t.Error("a claim with 256 users may have another one")
	}
	if _, err := s.DeletePod(member.UID); err != nil {
		t.Fatal(err)
	}
	if left := s.Devices().Users(); left > 0 {
		t.Errorf("left are %d claims with users", left)
	}
}

// The devices that a trial frees and gives, shares included, are as before when it ends. It sees the slices of its node
// alone.
func TestATrialLeavesNothingBehind(t *testing.T) {
	s := cluster.New()
	for _, node := range []string{"n", "other"} {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}
		if slice.Name == "other" {
			slice.Spec.Pool.Name = "q"
		}
		if _, err := s.Upsert(eventlog.ResourceSlices, slice); err != nil {
			t.Fatal(err)
		}
	}
	sharing := func(name string, uid types.UID) *resourcev1.ResourceClaim {
		claim := deviceClaim(name, "a", "shared")
		share := &claim.Status.Allocation.Devices.Results[1]
		share.ShareID = &uid
		share.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("3Gi")}
		return claim
	}
	claim := sharing("c", "11111111-1111-1111-1111-111111111111")
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}
	for _, c := range []*resourcev1.ResourceClaim{claim, deviceClaim("b", "b"), deviceClaim("without")} {
		if _, err := s.Upsert(eventlog.ResourceClaims, c); err != nil {
			t.Fatal(err)
		}
	}
	inUse := func() []any {
		a, b, c, d, e := s.Devices().InUse()
		return []any{a, b, c, d, e}
	}
	tracker, before := s.Devices().ResourceClaims(), inUse()
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, inUse()); diff != "" {
			t.Errorf("%s: what is in use has changed:\n%s", when, diff)
		}
	}
	nobody := func(types.UID) bool { return false }
	trial := s.Devices().Try("n")
	list, err := devices.ForAllocator(s.Devices()).ResourceSlices().ListWithDeviceTaintRules()
	if err != nil || len(list) != 1 || list[0].Name != "n" {
		t.Errorf("it sees the slices %v (%v)", list, err)
	}
	trial.Free(nobody)
	if used, err := tracker.GatherAllocatedState(); err != nil || len(used.AllocatedSharedDeviceIDs) > 0 ||
		used.AllocatedDevices.Has(structured.MakeDeviceID("d", "p", "a")) {
		t.Errorf("nothing came free: %v", used)
	}
	mark := trial.Mark()
	without, err := s.Devices().ResourceClaims().Get("ns", "without")
	if err != nil {
		t.Fatal(err)
	}
	trial.Give(without, sharing("w", "22222222-2222-2222-2222-222222222222").Status.Allocation)
	trial.Hold(podWithDevices("c"))
	if seen, _ := tracker.Get("ns", "without"); seen.Status.Allocation == nil {
		t.Error("the claim has not got what it was given")
	}
	trial.BackTo(mark)
	if seen, _ := tracker.Get("ns", "without"); seen.Status.Allocation != nil {
		t.Error("the claim keeps what was taken back")
	}
	trial.BackTo(0)
	same("taken back")
	trial.Hold(podWithDevices("c"))
	trial.Free(nobody)
	same("held")
	trial.End()
	trial = s.Devices().Try("n")
	trial.Free(nobody)
	trial.End()
	same("ended")
	if list, _ := devices.ForAllocator(s.Devices()).ResourceSlices().ListWithDeviceTaintRules(); len(list) != 2 {
		t.Errorf("after it the slices are %v", list)
	}
}

// A node awaits devices while a claim has them that no pod uses any more which is still there.
func TestANodeAwaitsTheDevicesOfPodsThatAreGone(t *testing.T) {
	s := cluster.New()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: ptr.To("n"),
		Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}
	if _, err := s.Upsert(eventlog.ResourceSlices, slice); err != nil {
		t.Fatal(err)
	}
	awaits := func(when string, want ...string) {
		t.Helper()
		if got := s.Devices().Awaiting(); !slices.Equal(got, want) || s.Devices().Awaits("n") != (len(want) > 0) {
			t.Errorf("%s: %v await devices, want %v", when, got, want)
		}
	}
	pod := podWithDevices("c")
	pod.Spec.NodeName = "n"
	if _, err := s.UpsertPod(pod); err != nil {
		t.Fatal(err)
	}
	claim := deviceClaim("c", "a")
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "pod", UID: pod.UID}}
	if _, err := s.Upsert(eventlog.ResourceClaims, claim); err != nil {
		t.Fatal(err)
	}
	awaits("the pod is there")
	if _, err := s.DeletePod(pod.UID); err != nil {
		t.Fatal(err)
	}
	awaits("the pod is gone", "n")
	if _, err := s.Upsert(eventlog.ResourceClaims, deviceClaim("c")); err != nil {
		t.Fatal(err)
	}
	awaits("the claim has given them back")
}
