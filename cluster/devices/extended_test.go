package devices_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// toMake is a claim that the bind of a pod makes, with a device.
func toMake(t testing.TB, name, device string) eventlog.DeviceClaim {
	t.Helper()
	claim := deviceClaim(name, device)
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	made, err := eventlog.NewMadeClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// isUsed reports whether a device of driver "d" and pool "p" is in use.
func isUsed(t testing.TB, f *cluster.State, device string) bool {
	t.Helper()
	all, err := f.Devices().ResourceClaims().ListAllAllocatedDevices()
	if err != nil {
		t.Fatal(err)
	}
	return all.Has(structured.MakeDeviceID("d", "p", device))
}

// A claim that a bind is to make takes its device from the decision on, is no object before it is logged, and is held
// like any other then. The device is free when the pod is released and the claim is logged as deleted.
func TestAClaimThatIsToBeMadeTakesItsDevices(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a"}}
	other := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "uid-b"}}
	claim := toMake(t, "made", "gpu-0")
	logged := func(owner *v1.Pod, uid types.UID, names ...string) *resourcev1.ResourceClaim {
		c := devices.ClaimToMake(owner, "made", nil)
		c.UID, c.Status = uid, deviceClaim("made", names...).Status
		return c
	}
	for name, then := range map[string]func(f *cluster.State) (used bool){
		"the pod is released": func(f *cluster.State) bool {
			freed := f.Devices().Forget(pod.UID).Freed
			if len(freed) != 1 || freed[0].Before.Status.Allocation == nil ||
				freed[0].Now.Status.Allocation != nil {
				t.Errorf("freed %v", freed)
			}
			return false
		},
		"the claim is logged without devices": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(pod, "u"))
			seen := f.Informers().Get(eventlog.ResourceClaims, "ns", "made").(*resourcev1.ResourceClaim)
			if seen.UID != "u" || seen.Status.Allocation == nil {
				t.Errorf("plugins see %+v", seen)
			}
			return true
		},
		"and then the pod is released": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(pod, "u"))
			f.Devices().Forget(pod.UID)
			return false
		},
		"the claim is logged with them, and stays": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(pod, "u"))
			mustUpsert(t, f, logged(pod, "u", "gpu-0"))
			f.Devices().Forget(pod.UID)
			return true
		},
		"and is deleted": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(pod, "u", "gpu-0"))
			f.Devices().Forget(pod.UID)
			f.Delete(eventlog.ResourceClaims, "ns", "made")
			return false
		},
		"another pod's claim has that name": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(other, "u"))
			return false
		},
		"a claim that was not made has it": func(f *cluster.State) bool {
			mustUpsert(t, f, deviceClaim("made"))
			return false
		},
		"it is logged with other devices": func(f *cluster.State) bool {
			mustUpsert(t, f, logged(pod, "u", "gpu-1"))
			return false
		},
	} {
		f := cluster.New()
		if _, err := f.Devices().Assume(pod, []eventlog.DeviceClaim{claim}); err != nil {
			t.Fatal(err)
		}
		if !isUsed(t, f, "gpu-0") || f.Informers().Get(eventlog.ResourceClaims, "ns", "made") != nil {
			t.Errorf("%s: before, the device is in use: %v", name, isUsed(t, f, "gpu-0"))
		}
		if _, err := f.Devices().Assume(other, []eventlog.DeviceClaim{toMake(t, "made", "gpu-2")}); err == nil {
			t.Errorf("%s: a claim of the same name is assumed", name)
		}
		want := then(f)
		if got := isUsed(t, f, "gpu-0"); got != want {
			t.Errorf("%s: the device is in use: %v", name, got)
		}
		// The plugin that allocates sees no claim that it made before.
		if list, err := devices.ForAllocator(f.Devices()).ResourceClaims().List(); err != nil || len(list) > 0 {
			t.Errorf("%s: the allocator lists %v, %v", name, namesOf(list, nil), err)
		}
		f.Devices().Forget(pod.UID)
		f.Delete(eventlog.ResourceClaims, "ns", "made")
		if isUsed(t, f, "gpu-0") || isUsed(t, f, "gpu-1") || f.Devices().Assumed() > 0 {
			t.Errorf("%s: left: %d", name, f.Devices().Assumed())
		}
	}
}

// A state with a claim that is to be made, and with one that is logged meanwhile, is restored as it was.
func TestAClaimThatIsToBeMadeIsRestored(t *testing.T) {
	for _, made := range []bool{false, true} {
		s := cluster.New()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a"}}
		if _, err := s.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
		p := s.Pods().Get(pod.UID)
		if err := s.Assume(p, "n1", cluster.Binding, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.AssumeDevices(p, []eventlog.DeviceClaim{toMake(t, "made", "gpu-0")}); err != nil {
			t.Fatal(err)
		}
		if made {
			claim := devices.ClaimToMake(pod, "made", nil)
			claim.UID = "u"
			if _, err := s.Upsert(eventlog.ResourceClaims, claim); err != nil {
				t.Fatal(err)
			}
		}
		state, err := s.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		restored := cluster.New()
		if err := restored.Restore(canonical.NewReader(state)); err != nil {
			t.Fatal(err)
		}
		again, err := restored.AppendState(nil)
		if err != nil || string(again) != string(state) || !isUsed(t, restored, "gpu-0") {
			t.Errorf("made %v: the state is another one: %v", made, err)
		}
		if err := restored.Release(restored.Pods().Get(pod.UID)); err != nil || isUsed(t, restored, "gpu-0") {
			t.Errorf("made %v: the device is in use after the release: %v", made, err)
		}
	}
}

// The resources that are names for devices follow the classes, with and without a name of their own.
func TestResourcesThatStandForDevices(t *testing.T) {
	s := cluster.New()
	class := func(name string, resource *string) {
		t.Helper()
		object := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		object.Spec.ExtendedResourceName = resource
		if _, err := s.Upsert(eventlog.DeviceClasses, object); err != nil {
			t.Fatal(err)
		}
	}
	gpu, nic := "example.com/gpu", "example.com/nic"
	check := func(what string, want ...v1.ResourceName) {
		t.Helper()
		for _, name := range []v1.ResourceName{v1.ResourceCPU, "example.com/gpu", "example.com/nic",
			"deviceclass.resource.kubernetes.io/a", "deviceclass.resource.kubernetes.io/b"} {
			stands := false
			for _, w := range want {
				stands = stands || w == name
			}
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
			pod.Spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{name: resource.MustParse("2")}}}}
			if got := s.Devices().RequestsExtended(pod); got != stands {
				t.Errorf("%s: %s stands for devices: %v", what, name, got)
			}
			if got := s.Devices().Stands(name); got != stands {
				t.Errorf("%s: %s stands for devices, by the state: %v", what, name, got)
			}
		}
	}
	class("a", &gpu)
	check("one class", "example.com/gpu", "deviceclass.resource.kubernetes.io/a")
	class("b", &gpu)
	class("a", &nic)
	check("two classes", "example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/a",
		"deviceclass.resource.kubernetes.io/b")
	cpu := string(v1.ResourceCPU)
	class("b", &cpu)
	check("one that stands for what is no extended resource", "example.com/nic", "deviceclass.resource.kubernetes.io/a",
		"deviceclass.resource.kubernetes.io/b")
	s.Delete(eventlog.DeviceClasses, "", "a")
	check("one is gone", "deviceclass.resource.kubernetes.io/b")
}

// drawContainers draws containers that request two resources which are names for devices, and one that is not.
func drawContainers(t *rapid.T, kind string, least, most int) (list []v1.Container) {
	for i := range rapid.IntRange(least, most).Draw(t, kind) {
		c := v1.Container{Name: fmt.Sprint(kind, i)}
		c.Resources.Requests = v1.ResourceList{}
		for _, name := range []v1.ResourceName{"example.com/a", "example.com/b", v1.ResourceCPU} {
			if n := rapid.Int64Range(0, 3).Draw(t, string(name)); n > 0 {
				c.Resources.Requests[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
		if always := v1.ContainerRestartPolicyAlways; kind == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = &always
		}
		list = append(list, c)
	}
	return list
}

// The requests of a pod's claim equal those that kube-scheduler's Filter finds. The containers' mappings equal those
// that its PreBind writes into the pod's status, for any pod.
func TestRequestMappingsAreUpstreams(t *testing.T) {
	f := cluster.New()
	node := worldNode("n1")
	mustUpsert(t, f, node)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node.Name,
		Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}
	for i := range 50 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	mustUpsert(t, f, slice)
	for _, name := range []string{"a", "b"} {
		resource := "example.com/" + name
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.ExtendedResourceName = &resource
		mustUpsert(t, f, class)
	}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	seen, runs := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
		pod.Spec.InitContainers = drawContainers(t, "init", 0, 3)
		pod.Spec.Containers = drawContainers(t, "container", 1, 2)
		client := fake.NewClientset(pod)
		runs++
		made, err := plugins.NewInTreeRegistry()[dynamicresources.Name](context.Background(),
			&config.DynamicResourcesArgs{}, &pluginHandle{state: f, client: client,
				profile: fmt.Sprint("profile-", runs)}) // each has an index of its own
		if err != nil {
			t.Fatal(err)
		}
		pl, ctx, state := made.(*dynamicresources.DynamicResources), context.Background(), framework.NewCycleState()
		would := devices.ClaimFor(f.Devices(), pod, info)
		if _, status := pl.PreFilter(ctx, state, pod, nil); status.Code() == fwk.Skip {
			if would != nil {
				t.Fatalf("a claim would be made for a pod that needs none: %+v", would.Spec)
			}
			return
		} else if !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, status := range []*fwk.Status{pl.Filter(ctx, state, pod, info), pl.Reserve(ctx, state, pod, "n1")} {
			if !status.IsSuccess() {
				t.Fatal(status)
			}
		}
		claim := f.Devices().MadeClaim(pod, 7)
		if would == nil || !reflect.DeepEqual(would.Spec, claim.Spec) {
			t.Fatalf("want the requests %+v, got %+v", claim.Spec, would)
		}
		if status := pl.PreBind(ctx, state, pod, "n1"); !status.IsSuccess() {
			t.Fatal(status)
		}
		bound, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		if err != nil || bound.Status.ExtendedResourceClaimStatus == nil {
			t.Fatalf("%v: %+v", err, bound)
		}
		want := bound.Status.ExtendedResourceClaimStatus.RequestMappings
		got, err := devices.RequestMappings(pod, claim.Spec.Devices.Requests)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
		seen++
	})
	if seen < 20 {
		t.Errorf("%d pods were compared", seen)
	}
	if left := f.Devices().Pending(); left > 0 {
		t.Errorf("left: %d", left)
	}
}

// The name of a made claim follows from the pod and the cycle. No other claim has it, and it is not longer than the
// names that the API server generates.
func TestNamesOfMadeClaims(t *testing.T) {
	f := cluster.New()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "u"}}
	first, again, next := f.Devices().FreeName(pod, 1), f.Devices().FreeName(pod, 1), f.Devices().FreeName(pod, 2)
	if first != again || !strings.HasPrefix(first, "train-extended-resources-") || first == next {
		t.Errorf("the names are %s, %s, and %s in another cycle", first, again, next)
	}
	mustUpsert(t, f, deviceClaim(first))
	second := f.Devices().FreeName(pod, 1)
	if _, err := f.Devices().Assume(pod, []eventlog.DeviceClaim{toMake(t, second, "gpu-0")}); err != nil {
		t.Fatal(err)
	}
	if third := f.Devices().FreeName(pod, 1); second == first || third == second || third == first {
		t.Errorf("the names are %s, %s and %s", first, second, third)
	}
	pod.Name = strings.Repeat("x", 200)
	if name := f.Devices().FreeName(pod, 1); len(name) != 63 {
		t.Errorf("the name %s has %d letters", name, len(name))
	}
}

// The claims of a pod without a node are left behind, except for one that its bind may be about to use.
func TestClaimsThatAreLeftBehind(t *testing.T) {
	s := cluster.New()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	want := func(what string, names ...string) {
		t.Helper()
		if left := namesOf(s.Devices().LeftClaims("u"), nil); !slices.Equal(left, names) {
			t.Errorf("%s: %v are left behind, want %v", what, left, names)
		}
	}
	upsert := func(claim *resourcev1.ResourceClaim) {
		t.Helper()
		if _, err := s.Upsert(eventlog.ResourceClaims, claim); err != nil {
			t.Fatal(err)
		}
	}
	upsert(devices.ClaimToMake(pod, "late", nil))
	upsert(devices.ClaimToMake(pod, "early", nil))
	upsert(deviceClaim("another"))
	want("no pod is there")
	if _, err := s.UpsertPod(pod); err != nil {
		t.Fatal(err)
	}
	want("the pod is there", "ns/early", "ns/late")
	p := s.Pods().Get("u")
	if err := s.Assume(p, "n1", cluster.Binding, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AssumeDevices(p, []eventlog.DeviceClaim{toMake(t, "made", "gpu-0")}); err != nil {
		t.Fatal(err)
	}
	want("it is being bound")
	made := devices.ClaimToMake(pod, "made", nil)
	made.UID = "m"
	upsert(made)
	if _, err := s.DeletePod("u"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpsertPod(pod); err != nil {
		t.Fatal(err)
	}
	want("it is back while its bind is under way", "ns/early", "ns/late")
	s.ResolveDevices("u", false)
	want("its bind has failed", "ns/early", "ns/late", "ns/made")
}
