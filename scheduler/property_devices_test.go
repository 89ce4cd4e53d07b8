package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// preemptedDevices is a cluster in which devices are all that is scarce, and pods are evicted for them. It drives two
// Machines, of which one keeps no memos.
type preemptedDevices struct {
	*rapid.T
	machines [2]*scheduler.Machine
	now      time.Duration
	made     int

	pods   map[string]*devicePod
	claims map[string]*resourcev1.ResourceClaim // as they are logged
	inUse  map[string]string                    // by device, which claim has it
	leave  []string                             // pods that were asked to go
	free   []string                             // claims that are to give their devices back

	evicted map[string]int // by pod or gang, how many decisions have had pods evicted for it

	// groups are the gangs whose pods share a claim of the PodGroup, by name; none where the feature gate is off.
	groups     map[string]bool
	hasGroups  bool
	homeless   map[string]string // the node selector of the pods that come
	givenBack  int               // how many claims of PodGroups were given back
	extended   int               // how many pods got devices as extended resources
	withShared int               // how many gangs with a claim of their PodGroup had others evicted
}

type devicePod struct {
	*v1.Pod
	claims []string
	node   string
	gang   string
}

const (
	anyDevice = "any"
	// extendedDevice is the resource for the devices of the class anyDevice.
	extendedDevice = "example.com/any"
)

func newPreemptedDevices(t *rapid.T, config []byte, hasGroups bool) *preemptedDevices {
	without := plugins.NewRegistry()
	without.NoClasses = true
	w := &preemptedDevices{T: t,
		machines: [2]*scheduler.Machine{scheduler.New(without), scheduler.New(plugins.NewRegistry())},
		pods:     map[string]*devicePod{}, claims: map[string]*resourcev1.ResourceClaim{}, inUse: map[string]string{},
		evicted: map[string]int{}, groups: map[string]bool{}, hasGroups: hasGroups}
	w.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: config,
		Behaviour: scheduler.Behaviour})
	w.upsert(eventlog.DeviceClasses, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: anyDevice},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To(extendedDevice)}})
	red := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "red"}}
	red.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: `device.attributes["d"].colour == "red"`}}}
	w.upsert(eventlog.DeviceClasses, red)
	nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
	for i := range nodes {
		w.node(i)
		w.slice(nodeOf(i), rapid.IntRange(1, 4).Draw(t, "devices"))
	}
	if rapid.Bool().Draw(t, "classes") {
		for i := range 64 {
			w.node(nodes + i)
		}
	}
	return w
}

func (w *preemptedDevices) apply(p eventlog.Payload) {
	for _, m := range w.machines {
		epoch := m.Epoch()
		if _, ok := p.(*eventlog.EpochStarted); ok {
			epoch++
		}
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: epoch, Payload: p,
			Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0).Add(w.now))}); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *preemptedDevices) upsert(res eventlog.Resource, obj eventlog.Object) {
	w.apply(&eventlog.Upserted{Resource: res, Object: obj})
}

func (w *preemptedDevices) node(i int) {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourcePods: resource.MustParse("110")}
	w.upsert(eventlog.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(i), UID: types.UID(nodeOf(i)),
		Labels: map[string]string{"made": fmt.Sprint(w.made)}},
		Status: v1.NodeStatus{Allocatable: list, Capacity: list}})
}

// slice offers devices, every other one of which is red.
func (w *preemptedDevices) slice(node string, devices int) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for k := range devices {
		colour := []string{"red", "blue"}[k%2]
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("d%d", k),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"colour": {StringValue: &colour}}})
	}
	w.upsert(eventlog.ResourceSlices, slice)
}

func (w *preemptedDevices) claim(name, class string, count int64) {
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("c" + name)}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, Count: count, AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}
	w.log(claim)
}

func (w *preemptedDevices) log(claim *resourcev1.ResourceClaim) {
	w.claims[claim.Name] = claim
	w.upsert(eventlog.ResourceClaims, claim)
}

// pod makes a pod of a priority. It has a claim of its own, as of a template, or shares one.
func (w *preemptedDevices) pod(priority int32, gang string) string {
	name := fmt.Sprintf("p%03d", w.made)
	w.made++
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Priority: &priority,
			Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}}}}}
	pod.Spec.NodeSelector = w.homeless
	p := &devicePod{Pod: pod, gang: gang}
	if gang != "" {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
	}
	if w.groups[gang] {
		w.shareOfGroup(p)
		return name
	}
	if rapid.IntRange(0, 4).Draw(w.T, "extended") == 0 {
		n := rapid.Int64Range(1, 2).Draw(w.T, "count")
		pod.Spec.Containers[0].Resources.Requests[extendedDevice] = *resource.NewQuantity(n, resource.DecimalSI)
		w.pods[name] = p
		w.Logf("pod %s of gang %q comes with priority %d: it requests %d devices as a resource", name, gang, priority,
			n)
		w.upsert(eventlog.Pods, pod)
		return name
	}
	class, count := anyDevice, int64(1)
	if rapid.IntRange(0, 3).Draw(w.T, "red") == 0 {
		class = "red"
	} else if gang == "" && rapid.IntRange(0, 3).Draw(w.T, "two") == 0 {
		count = 2
	}
	if gang == "" && rapid.IntRange(0, 3).Draw(w.T, "shared") == 0 {
		shared := fmt.Sprintf("shared%d", rapid.IntRange(0, 2).Draw(w.T, "claim"))
		if w.claims[shared] == nil {
			w.claim(shared, class, count)
		}
		p.claims = []string{shared}
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimName: &shared}}
	} else {
		own := "own-" + name
		p.claims = []string{own}
		w.claim(own, class, count)
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
		pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &own}}
		claim := w.claims[own].DeepCopy()
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		w.log(claim)
	}
	w.pods[name] = p
	request := w.claims[p.claims[0]].Spec.Devices.Requests[0].Exactly
	w.Logf("pod %s of gang %q comes with priority %d: %s has %d devices, %s", name, gang, priority, p.claims[0],
		request.Count, request.DeviceClassName)
	w.upsert(eventlog.Pods, pod)
	return name
}

// group makes a gang, whose pods share a claim that is made of a template, or not.
func (w *preemptedDevices) group(name string, priority int32, members int) (pods []string) {
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("g" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(members)}
	if w.groups[name] = w.hasGroups && rapid.Bool().Draw(w.T, "group claim"); w.groups[name] {
		w.claim("of-"+name, anyDevice, rapid.Int64Range(1, 2).Draw(w.T, "count"))
		claim := w.claims["of-"+name].DeepCopy()
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(g, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))}
		w.log(claim)
		g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{
			{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
		g.Status.ResourceClaimStatuses = []schedulingv1beta1.PodGroupResourceClaimStatus{
			{Name: "x", ResourceClaimName: &claim.Name}}
	}
	w.upsert(eventlog.PodGroups, g)
	for range members {
		pods = append(pods, w.pod(priority, name))
	}
	return pods
}

// again has the pods of a gang go, if they have nodes, and other gangs come, some of whose pods find no node.
func (w *preemptedDevices) again(gang string, priority int32, names []string) {
	for _, name := range names {
		if w.pods[name].node == "" {
			return
		}
	}
	for _, name := range names {
		w.end(name)
	}
	w.homeless = map[string]string{"nowhere": ""}
	for range names {
		w.pod(priority, gang)
		if rapid.Bool().Draw(w.T, "the others find one") {
			w.homeless = nil
		}
	}
	w.homeless = nil
}

// shareOfGroup has a pod use the claim of its gang.
func (w *preemptedDevices) shareOfGroup(p *devicePod) {
	claim := "of-" + p.gang
	p.claims = []string{claim}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &claim}}
	w.pods[p.Name] = p
	w.Logf("pod %s of gang %q comes with priority %d, and shares its claim", p.Name, p.gang, *p.Spec.Priority)
	w.upsert(eventlog.Pods, p.Pod)
}

// giveBack carries out what is asked for of claims of PodGroups.
func (w *preemptedDevices) giveBack() {
	for _, e := range w.machines[0].Effects() {
		if e.Kind != scheduler.GiveBack {
			continue
		}
		for _, c := range e.Devices {
			if w.used(c.Claim) {
				w.Fatalf("claim %s is to be given back, and a pod uses it", c.Claim)
			}
			w.Logf("claim %s is given back", c.Claim)
			w.givenBack++
			claim := w.claims[c.Claim].DeepCopy()
			claim.Status = resourcev1.ResourceClaimStatus{}
			w.give(c.Claim)
			w.log(claim)
		}
	}
}

// decide applies all decisions that are due, and answers the binds.
func (w *preemptedDevices) decide() {
	for n := 0; ; n++ {
		if n > 500 {
			w.Fatal("the decisions have no end")
		}
		without, ok := w.machines[0].Decide(nil)
		with, alsoOK := w.machines[1].Decide(nil)
		if diff := cmp.Diff(without, with); diff != "" || ok != alsoOK {
			w.Fatalf("(- without memos, + with):\n%s", diff)
		}
		if !ok {
			return
		}
		w.take(&with)
	}
}

func (w *preemptedDevices) take(d *eventlog.Decision) {
	var names []string
	for _, c := range d.Devices {
		names = append(names, c.Claim)
	}
	w.Logf("%s is %s %s with %v; evicts %v, nominated to %s, and %v", d.Name, d.Outcome, d.Node, names, d.Victims,
		d.Nominated, d.Nominations)
	for _, c := range d.Devices {
		w.use(w.pods[d.Name], c)
	}
	if d.Node != "" {
		w.pods[d.Name].node = d.Node
	}
	for _, uid := range d.Rejected {
		w.release(string(uid))
	}
	for _, uid := range d.Victims {
		if victim := w.pods[string(uid)]; *victim.Spec.Priority >= *w.pods[d.Name].Spec.Priority {
			w.Fatalf("pod %s is evicted for %s", uid, d.Name)
		}
		w.leave = append(w.leave, string(uid))
	}
	if len(d.Victims) > 0 {
		w.evicted[w.owner(d.Name)]++
	}
	w.apply(d)
	var bound []string
	for _, uid := range d.Allowed {
		bound = append(bound, string(uid))
	}
	if d.Outcome == eventlog.Scheduled {
		bound = append(bound, d.Name)
	}
	for _, name := range bound {
		w.bind(name)
	}
}

// owner is the gang of a pod, or itself.
func (w *preemptedDevices) owner(name string) string {
	if g := w.pods[name].gang; g != "" {
		return g
	}
	return name
}

// use has a claim have the devices that a decision gives it. No device is given twice.
func (w *preemptedDevices) use(p *devicePod, c eventlog.DeviceClaim) {
	result, err := c.Result()
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range result.Devices.Results {
		device := r.Pool + "/" + r.Device
		if by, ok := w.inUse[device]; ok && by != c.Claim {
			w.Fatalf("device %s is given to %s, and %s has it", device, c.Claim, by)
		}
		w.inUse[device] = c.Claim
	}
	if c.UID == "" {
		requests, err := c.Requests()
		if err != nil || w.claims[c.Claim] != nil {
			w.Fatalf("claim %s is to be made: %v, %v", c.Claim, w.claims[c.Claim], err)
		}
		made := devices.ClaimToMake(p.Pod, c.Claim, requests)
		made.UID = types.UID("c" + c.Claim)
		w.claims[c.Claim], p.claims = made, append(p.claims, c.Claim)
		w.extended++
	}
	claim := w.claims[c.Claim].DeepCopy()
	claim.Status.Allocation = result
	w.claims[c.Claim] = claim // logged once its pod is bound
}

// release takes a pod off the node that it was held on.
func (w *preemptedDevices) release(name string) {
	p := w.pods[name]
	p.node = ""
	p.claims = slices.DeleteFunc(p.claims, func(claim string) bool {
		made := w.claims[claim].Annotations != nil
		if !w.used(claim) && len(w.claims[claim].Status.ReservedFor) == 0 {
			w.give(claim)
			w.claims[claim].Status = resourcev1.ResourceClaimStatus{}
		}
		if made {
			delete(w.claims, claim)
		}
		return made
	})
}

func (w *preemptedDevices) used(claim string) bool {
	for _, p := range w.pods {
		if p.node != "" && slices.Contains(p.claims, claim) {
			return true
		}
	}
	return false
}

// give has a claim have no devices.
func (w *preemptedDevices) give(claim string) {
	maps.DeleteFunc(w.inUse, func(_, by string) bool { return by == claim })
}

// bind answers a bind: the claims are logged with their devices before.
func (w *preemptedDevices) bind(name string) {
	p := w.pods[name]
	for _, c := range p.claims {
		claim := w.claims[c].DeepCopy()
		consumer := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)}
		if w.groups[p.gang] {
			consumer = resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName,
				Resource: "podgroups", Name: p.gang, UID: types.UID("g" + p.gang)}
		}
		if !slices.Contains(claim.Status.ReservedFor, consumer) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
		}
		w.log(claim)
	}
	w.apply(&eventlog.BindResult{UID: types.UID(name), Node: p.node, Outcome: eventlog.BindBound,
		Decision: w.machines[0].AskedBy(types.UID(name), scheduler.Bind)})
}

// end has a pod go from its node; its claims give their devices back later.
func (w *preemptedDevices) end(name string) {
	p := w.pods[name]
	w.Logf("pod %s ends on %s", name, p.node)
	delete(w.pods, name)
	w.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: name, UID: types.UID(name)})
	w.free = append(w.free, p.claims...)
}

// settle has the claim take note of the pods that have gone, as Kubernetes' controller does.
func (w *preemptedDevices) settle(name string) {
	w.Logf("claim %s is settled", name)
	claim := w.claims[name].DeepCopy()
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool {
			return r.Resource == "pods" && w.pods[r.Name] == nil
		})
	if len(claim.Status.ReservedFor) > 0 {
		w.log(claim)
		return
	}
	w.give(name)
	if metav1.GetControllerOf(claim) != nil {
		delete(w.claims, name)
		w.apply(&eventlog.Deleted{Resource: eventlog.ResourceClaims, Namespace: "ns", Name: name, UID: claim.UID})
		return
	}
	claim.Status = resourcev1.ResourceClaimStatus{}
	w.log(claim)
}

// pass lets time pass and something happen that has pods tried again.
func (w *preemptedDevices) pass() {
	w.now += time.Minute
	w.apply(&eventlog.Tick{})
	w.giveBack()
	w.made++
	w.node(0)
	w.decide()
}

// finish has pods end that were asked to, and claims give their devices back, in any order, with other pods coming and
// all being tried in between.
func (w *preemptedDevices) finish(below int32) {
	for len(w.leave)+len(w.free) > 0 {
		switch n := rapid.IntRange(0, 9).Draw(w.T, "next"); {
		case n < 4 && len(w.leave) > 0:
			next := w.leave[0]
			w.leave = w.leave[1:]
			if w.pods[next] != nil {
				w.end(next)
			}
		case n < 8 && len(w.free) > 0:
			next := w.free[0]
			w.free = w.free[1:]
			if w.claims[next] != nil {
				w.settle(next)
			}
		case n == 8 && below > 0 && rapid.IntRange(0, 3).Draw(w.T, "another gang") == 0:
			priority := rapid.Int32Range(0, below-1).Draw(w.T, "priority")
			w.group(fmt.Sprintf("low%d", w.made), priority, rapid.IntRange(1, 3).Draw(w.T, "members"))
		case n == 8 && below > 0:
			w.pod(rapid.Int32Range(0, below-1).Draw(w.T, "priority"), "")
		default:
			w.pass()
			continue
		}
		w.decide()
	}
	for range 3 {
		w.pass()
	}
	if len(w.leave)+len(w.free) > 0 {
		w.finish(below)
	}
}

// TestPodsThatHaveOthersEvictedForDevicesGetThem: no device is given twice. For a pod, or a gang, others are evicted
// once. Then it gets its devices, whatever pods of lower priority come meanwhile, also if it is tried before the
// devices are free. With and without memos the same is decided. Some pods have their devices as extended resources, and
// the pods of some gangs share a claim of their PodGroup.
func TestPodsThatHaveOthersEvictedForDevicesGetThem(t *testing.T) {
	configs := [][]byte{defaultConfig(t), encodedConfig(t, groupClaimsOn)}
	singles, gangs, all := 0, 0, preemptedDevices{}
	rapid.Check(t, func(t *rapid.T) {
		hasGroups := rapid.IntRange(0, 1).Draw(t, "PodGroups have claims")
		w := newPreemptedDevices(t, configs[hasGroups], hasGroups == 1)
		defer func() {
			all.givenBack += w.givenBack
			all.extended += w.extended
			all.withShared += w.withShared
		}()
		for i := range rapid.IntRange(1, 8).Draw(t, "before") {
			priority := rapid.Int32Range(0, 3).Draw(t, "priority")
			if rapid.IntRange(0, 3).Draw(t, "gang before") == 0 {
				gang, members := fmt.Sprintf("before%d", i), rapid.IntRange(1, 3).Draw(t, "members")
				names := w.group(gang, priority, members)
				if rapid.Bool().Draw(t, "again") {
					w.decide()
					w.again(gang, priority, names)
				}
			} else {
				w.pod(priority, "")
			}
			w.decide()
			w.finish(0)
		}
		for priority := int32(10); priority < 10+rapid.Int32Range(1, 3).Draw(t, "preemptors"); priority++ {
			names, owner := []string(nil), ""
			if rapid.IntRange(0, 2).Draw(t, "gang") == 0 {
				owner = fmt.Sprintf("g%d", priority)
				names = w.group(owner, priority, rapid.IntRange(2, 4).Draw(t, "members"))
			} else {
				names = append(names, w.pod(priority, ""))
				owner = names[0]
			}
			w.decide()
			w.finish(priority)
			if w.evicted[owner] == 0 {
				continue
			}
			if w.evicted[owner] > 1 {
				t.Fatalf("%d times pods are evicted for %s", w.evicted[owner], owner)
			}
			for _, name := range names {
				if w.pods[name].node == "" {
					t.Fatalf("pods were evicted for %s, and %s has no node", owner, name)
				}
			}
			if w.groups[owner] {
				w.withShared++
			}
			if len(names) > 1 {
				gangs++
			} else {
				singles++
			}
		}
		if w.machines[0].Hash() != w.machines[1].Hash() {
			t.Fatal("the states are not the same")
		}
	})
	if singles == 0 || gangs == 0 {
		t.Errorf("for devices %d pods and %d gangs have had others evicted", singles, gangs)
	}
	if all.givenBack == 0 || all.extended == 0 || all.withShared == 0 {
		t.Errorf("%d claims of PodGroups were given back, %d pods got devices as resources, and others were evicted "+
			"for %d gangs with a claim of their PodGroup", all.givenBack, all.extended, all.withShared)
	}
}
