package devices_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// deviceClaim is a claim with an allocation of devices of driver "d", pool "p"; with none it is unallocated.
func deviceClaim(name string, names ...string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
	}
	if len(names) == 0 {
		return claim
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, device := range names {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "p", Device: device})
	}
	return claim
}

func onlyOnNode(claim *resourcev1.ResourceClaim, node string) *resourcev1.ResourceClaim {
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		{
			MatchFields: []v1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}},
			},
		},
	}}
	return claim
}

func podWithDevices(claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid-pod"}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(
			pod.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim},
		)
	}
	return pod
}

func TestAnAllocatedClaimHoldsItsPodToTheAllocationsNodes(t *testing.T) {
	f := cluster.New()
	mustUpsert(t, f, worldNode("n1"), worldNode("n2"), onlyOnNode(deviceClaim("gpu", "gpu-0"), "n2"))
	pl := newPlugin(t, f)
	ctx, state, pod := context.Background(), framework.NewCycleState(), podWithDevices("gpu")
	if _, status := pl.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	for node, want := range map[string]bool{"n1": false, "n2": true} {
		info := framework.NewNodeInfo()
		info.SetNode(f.Informers().Get(eventlog.Nodes, "", node).(*v1.Node))
		if status := pl.(fwk.FilterPlugin).Filter(ctx, state, pod, info); status.IsSuccess() != want {
			t.Errorf("%s: %v", node, status)
		}
	}
	if status := pl.(fwk.ReservePlugin).Reserve(ctx, state, pod, "n2"); !status.IsSuccess() {
		t.Error(status.Message())
	}
	pl.(fwk.ReservePlugin).Unreserve(ctx, state, pod, "n2")
	if f.Devices().Pending() != 0 {
		t.Error("an allocation is pending after Unreserve")
	}
	if _, status := pl.(fwk.PreFilterPlugin).PreFilter(
		ctx,
		framework.NewCycleState(),
		podWithDevices("none"),
		nil,
	); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a claim that is not there: %v", status)
	}
	if _, status := pl.(fwk.PreFilterPlugin).PreFilter(
		ctx,
		framework.NewCycleState(),
		podWithDevices(),
		nil,
	); status.Code() != fwk.Skip {
		t.Errorf("a pod without claims: %v", status)
	}
}

func TestPendingAllocationsCountUntilTheyAreTakenBack(t *testing.T) {
	f := cluster.New()
	mustUpsert(t, f, deviceClaim("open"), deviceClaim("done", "gpu-0"))
	claims := f.Devices().ResourceClaims()
	inUse := func() string {
		all, err := claims.ListAllAllocatedDevices()
		gathered, err2 := claims.GatherAllocatedState()
		if err != nil || err2 != nil || !all.Equal(gathered.AllocatedDevices) {
			t.Fatalf("%v %v: %v and %v differ", err, err2, all, gathered.AllocatedDevices)
		}
		var names []string
		for id := range all {
			names = append(names, id.String())
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for range 2 {
		if err := claims.SignalClaimPendingAllocation("uid-open", deviceClaim("open", "gpu-1")); err != nil {
			t.Fatal(err)
		}
	}
	if claims.GetPendingAllocation("uid-open") == nil || claims.GetPendingAllocation("uid-done") != nil {
		t.Error("the wrong claims are pending")
	}
	if got := inUse(); got != "d/p/gpu-0 d/p/gpu-1" {
		t.Errorf("in use: %s", got)
	}
	if claims.MaybeRemoveClaimPendingAllocation("uid-open", false) {
		t.Error("the first of two sharers removed the allocation")
	}
	if !claims.MaybeRemoveClaimPendingAllocation("uid-open", false) ||
		claims.MaybeRemoveClaimPendingAllocation("uid-open", false) {
		t.Error("the last sharer did not remove the allocation, once")
	}
	if got := inUse(); got != "d/p/gpu-0" {
		t.Errorf("in use: %s", got)
	}
	if err := claims.SignalClaimPendingAllocation("uid-none", deviceClaim("none", "gpu-1")); err == nil {
		t.Error("a claim that is not there is pending")
	}
	if err := claims.SignalClaimPendingAllocation(
		"uid-done",
		deviceClaim("done", "gpu-1"),
	); err != nil ||
		claims.GetPendingAllocation("uid-done") != nil {
		t.Errorf("an allocated claim is pending: %v", err)
	}
	if err := claims.SignalClaimPendingAllocation(
		"special",
		deviceClaim("<extended-resources>", "gpu-2"),
	); err != nil ||
		!claims.MaybeRemoveClaimPendingAllocation("special", true) {
		t.Errorf("the claim in memory only: %v", err)
	}
	if err := claims.AssumeClaimAfterAPICall(deviceClaim("open")); !errors.Is(err, devices.ErrLogFed) {
		t.Errorf("AssumeClaimAfterAPICall: %v", err)
	}
	claims.AssumedClaimRestore("ns", "open")
	if got := namesOf(claims.List()); !slices.Equal(got, []string{"ns/done", "ns/open"}) {
		t.Errorf("claims: %v", got)
	}
}

// The devices in use are counted up and down as claims come and go; they must be what the claims add up to.
func TestDevicesInUseAreWhatTheClaimsAddUpTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := cluster.New()
		claims := map[string]*resourcev1.ResourceClaim{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		result := rapid.Custom(func(t *rapid.T) resourcev1.DeviceRequestAllocationResult {
			r := resourcev1.DeviceRequestAllocationResult{
				Driver: "d",
				Pool:   "p",
				Device: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "device"),
			}
			if rapid.Bool().Draw(t, "shared") {
				share := types.UID(rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "share"))
				r.ShareID = &share
				r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{
					"memory": *resource.NewQuantity(rapid.Int64Range(1, 9).Draw(t, "memory"), resource.DecimalSI),
				}
			}
			if rapid.Bool().Draw(t, "has access") {
				admin := rapid.Bool().Draw(t, "admin")
				r.AdminAccess = &admin
			}
			return r
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				claim := deviceClaim(name.Draw(t, "claim"))
				if results := rapid.SliceOfN(result, 0, 3).Draw(t, "results"); len(results) > 0 {
					claim.Status.Allocation = &resourcev1.AllocationResult{
						Devices: resourcev1.DeviceAllocationResult{Results: results},
					}
				}
				claims[claim.Name] = claim
				if _, err := f.Upsert(eventlog.ResourceClaims, claim); err != nil {
					t.Fatal(err)
				}
			},
			"delete": func(t *rapid.T) {
				gone := name.Draw(t, "claim")
				delete(claims, gone)
				f.Delete(eventlog.ResourceClaims, "ns", gone)
			},
			"": func(t *rapid.T) { checkInUse(t, f, claims) },
		})
	})
}

func checkInUse(t *rapid.T, f *cluster.State, claims map[string]*resourcev1.ResourceClaim) {
	devices, shares, memory := sets.New[string](), sets.New[string](), map[structured.DeviceID]int64{}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID != nil:
				shares.Insert(structured.MakeSharedDeviceID(id, r.ShareID).String())
				quantity := r.ConsumedCapacity["memory"]
				memory[id] += quantity.Value()
			default:
				devices.Insert(id.String())
			}
		}
	}
	got, err := f.Devices().ResourceClaims().GatherAllocatedState()
	if err != nil {
		t.Fatal(err)
	}
	gotDevices, gotShares := sets.New[string](), sets.New[string]()
	for id := range got.AllocatedDevices {
		gotDevices.Insert(id.String())
	}
	for id := range got.AllocatedSharedDeviceIDs {
		gotShares.Insert(id.String())
	}
	if !gotDevices.Equal(devices) || !gotShares.Equal(shares) || len(got.AggregatedCapacity) != len(memory) {
		t.Fatalf(
			"in use: %v %v %v, want %v %v %v",
			gotDevices,
			gotShares,
			got.AggregatedCapacity,
			devices,
			shares,
			memory,
		)
	}
	for id, want := range memory {
		if sum := got.AggregatedCapacity[id]["memory"]; sum == nil || sum.Value() != want {
			t.Fatalf("%v uses %v, want %d", id, sum, want)
		}
	}
}

func TestTheNewestDeviceClassStandsForAnExtendedResource(t *testing.T) {
	extended := "example.com/gpu"
	class := func(name string, second int64) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
			Spec:       resourcev1.DeviceClassSpec{ExtendedResourceName: &extended},
		}
	}
	all := []*resourcev1.DeviceClass{class("old", 1), class("b", 2), class("a", 2)}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		f := cluster.New()
		for _, at := range order {
			mustUpsert(t, f, all[at])
		}
		resolver := f.Devices().DeviceClassResolver()
		for _, want := range []string{"a", "b", "old"} {
			if got := resolver.GetDeviceClass("example.com/gpu"); got == nil || got.Name != want {
				t.Errorf("order %v: %v, want %s", order, got, want)
			}
			if got := resolver.GetDeviceClass(
				v1.ResourceName("deviceclass.resource.kubernetes.io/" + want),
			); got == nil ||
				got.Name != want {
				t.Errorf("by class name %s: %v", want, got)
			}
			f.Delete(eventlog.DeviceClasses, "", want)
		}
		if resolver.GetDeviceClass("example.com/gpu") != nil ||
			resolver.GetDeviceClass("deviceclass.resource.kubernetes.io/a") != nil {
			t.Error("a deleted class is found")
		}
	}
}

func TestSlicesAndClassesAreListedByName(t *testing.T) {
	f := cluster.New()
	var want []string
	for i := range 30 {
		name := fmt.Sprintf("s%02d", (i*7)%30)
		mustUpsert(
			t,
			f,
			&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}},
		)
		want = append(want, "/"+name)
	}
	slices.Sort(want)
	if got := namesOf(f.Devices().ResourceSlices().ListWithDeviceTaintRules()); !slices.Equal(got, want) {
		t.Errorf("slices: %v", got)
	}
	if got := namesOf(f.Devices().DeviceClasses().List()); !slices.Equal(got, want) {
		t.Errorf("classes: %v", got)
	}
}
