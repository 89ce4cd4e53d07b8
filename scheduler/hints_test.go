package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestEveryInTreePluginIsAskedAboutItsEvents has each of kube-scheduler's plugins refuse a pod, by itself, and makes
// every change, as entries of a log, that the plugin registered for: its QueueingHint is asked about each. Missing are
// the plugins of kube-scheduler's pod group cycle, for which Coscheduling stands.
func TestEveryInTreePluginIsAskedAboutItsEvents(t *testing.T) {
	registry, events := plugins.NewRegistry(), 0
	for _, name := range slices.Sorted(maps.Keys(intree.NewInTreeRegistry())) {
		if slices.Contains(ofPodGroupCycle, name) {
			continue
		}
		if registry.Factories[name] == nil {
			t.Errorf("plugin %s is not in the registry", name)
			continue
		}
		w := newHintWorld(t, registry, name)
		for i, reg := range w.listener.registered {
			for _, action := range basicActions(reg.Event) {
				events++
				w.listener.forget()
				if !w.change(changeKind{reg.Event.Resource, action}) {
					t.Errorf("%s registers %s of %s, which this test cannot make", name, action, reg.Event.Resource)
					continue
				}
				if w.listener.asked[i] == 0 {
					t.Errorf("%s registered %s of %s, and was not asked about one", name, action, reg.Event.Resource)
				}
				if state := w.m.Queue().Find(w.target.UID).State(); state != queue.Unschedulable {
					t.Fatalf("%s: after %s of %s the pod is %s", name, action, reg.Event.Resource, state)
				}
			}
		}
	}
	if events < 60 {
		t.Errorf("there were %d events, too few to tell", events)
	}
}

// ofPodGroupCycle are the plugins for which Coscheduling stands.
var ofPodGroupCycle = []string{names.GangScheduling, names.TopologyPlacementGenerator, names.PodGroupPodsCount}

// TestStandInsRegisterTheEventsOfWhatTheyStandFor compares the plugins that are not kube-scheduler's own, but have the
// names of such. DefaultPreemption is left out: kube-scheduler's registers one event, for pods whose victims it is
// evicting in the background, and its hint always says Skip. Here evictions are effects, and no pod waits for them so.
func TestStandInsRegisterTheEventsOfWhatTheyStandFor(t *testing.T) {
	registry := plugins.NewRegistry()
	for _, name := range []string{
		names.NodeResourcesFit, names.NodeResourcesBalancedAllocation, names.PodTopologySpread,
	} {
		ours := newHintWorld(t, registry, name).listener.registered
		upstreams := plugins.NewRegistry()
		upstreams.Factories[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return intree.NewInTreeRegistry()[name](ctx, args, h)
		}
		theirs := newHintWorld(t, upstreams, name).listener.registered
		if got, want := eventsOf(ours), eventsOf(theirs); !slices.Equal(got, want) {
			t.Errorf("%s registers %v, and kube-scheduler's %v", name, got, want)
		}
	}
}

func eventsOf(registered []fwk.ClusterEventWithHint) (events []string) {
	for _, reg := range registered {
		events = append(events, fmt.Sprintf("%s %b", reg.Event.Resource, reg.Event.ActionType))
	}
	slices.Sort(events)
	return events
}

// changeKind is a change as QueueingHints know it.
type changeKind struct {
	resource fwk.EventResource
	action   fwk.ActionType
}

// basicActions are the single actions of an event: Add, Delete, and for nodes and pods each kind of Update.
func basicActions(e fwk.ClusterEvent) (actions []fwk.ActionType) {
	var of fwk.ActionType
	switch e.Resource {
	case fwk.Node:
		of = fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeCondition |
			fwk.UpdateNodeAnnotation | fwk.UpdateNodeDeclaredFeature | fwk.UpdateNodePreemptionPolicy
	case fwk.AssignedPod, fwk.TargetPod:
		of = fwk.UpdatePodLabel | fwk.UpdatePodScaleDown | fwk.UpdatePodScaleUp | fwk.UpdatePodToleration |
			fwk.UpdatePodSchedulingGatesEliminated | fwk.UpdatePodGeneratedResourceClaim
	default:
		if e.ActionType&fwk.Update != 0 {
			actions = append(actions, fwk.Update)
		}
	}
	for left := e.ActionType & (of | fwk.Add | fwk.Delete); left != 0; left &= left - 1 {
		actions = append(actions, 1<<bits.TrailingZeros64(uint64(left)))
	}
	return actions
}

// listener refuses all nodes under the name of a plugin, registers that plugin's events, and counts how often it is
// asked about each. It never wants a retry.
type listener struct {
	name       string
	registered []fwk.ClusterEventWithHint
	asked      []int
}

// forget begins to count again.
func (l *listener) forget() { clear(l.asked) }

func (l *listener) Name() string { return l.name }

func (l *listener) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "no")
}

func (l *listener) EventsToRegister(context.Context) (events []fwk.ClusterEventWithHint, err error) {
	l.asked = make([]int, len(l.registered))
	for i, reg := range l.registered {
		reg.QueueingHintFn = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
			l.asked[i]++
			return fwk.QueueSkip, nil
		}
		reg.PreQueueingHintFn = nil
		events = append(events, reg)
	}
	return events, nil
}

// hintWorld is a Machine with one plugin that refuses one pod.
type hintWorld struct {
	t        *testing.T
	m        *scheduler.Machine
	listener *listener
	names    int
	node     *v1.Node
	target   *v1.Pod // the refused one
	other    *v1.Pod // one on the node
}

// newHintWorld has the plugin of that name in the registry refuse a pod.
func newHintWorld(t *testing.T, registry framework.Registry, name string) *hintWorld {
	t.Helper()
	w := &hintWorld{t: t, listener: &listener{name: name}}
	real := registry.Factories[name]
	factories := maps.Clone(registry.Factories)
	factories[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := real(ctx, args, h)
		if err != nil {
			return nil, err
		}
		if ext, ok := p.(fwk.EnqueueExtensions); ok {
			if w.listener.registered, err = ext.EventsToRegister(ctx); err != nil {
				return nil, err
			}
		}
		if name == names.PrioritySort || name == names.DefaultBinder {
			return p, nil
		}
		return w.listener, nil
	}
	w.m = scheduler.New(framework.Registry{Factories: factories})
	enabled := fmt.Sprintf("[{name: %s}, {name: %s}, {name: %s}]", names.PrioritySort, names.DefaultBinder, name)
	if name == names.PrioritySort || name == names.DefaultBinder {
		enabled = fmt.Sprintf("[{name: %s}, {name: %s}]", names.PrioritySort, names.DefaultBinder)
	}
	w.take(&eventlog.EpochStarted{
		ID: "e", Version: "test", Format: eventlog.FormatVersion, Behaviour: scheduler.Behaviour,
		Config: encodedConfig(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {InPlacePodVerticalScalingSchedulerPreemption: true}
profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: `+enabled+`}}}]
`),
	})
	w.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node", Labels: map[string]string{"zone": "a"}}}
	w.node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100"),
		v1.ResourcePods: resource.MustParse("100")}
	w.upsert(eventlog.Nodes, w.node)
	w.other, w.target = w.pod("other"), w.pod("target")
	w.other.Spec.NodeName = w.node.Name
	w.upsert(eventlog.Pods, w.other)
	w.upsert(eventlog.Pods, w.target)
	for {
		d, ok := w.m.Decide(nil)
		if !ok {
			return w
		}
		w.take(&d)
	}
}

func (w *hintWorld) take(p eventlog.Payload) {
	w.t.Helper()
	now := eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err := w.m.Apply(eventlog.Entry{Seq: w.m.Seq() + 1, Epoch: 1, Time: now, Payload: p}); err != nil {
		w.t.Fatal(err)
	}
}

// upsert takes in an object as a log has it.
func (w *hintWorld) upsert(res eventlog.Resource, obj eventlog.Object) {
	w.t.Helper()
	logged, err := eventlog.Canonical(res, eventlog.Trim(res, obj.DeepCopyObject().(eventlog.Object)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.take(&eventlog.Upserted{Resource: res, Object: logged})
}

// fresh returns metadata with a name that no object has.
func (w *hintWorld) fresh() metav1.ObjectMeta {
	w.names++
	name := fmt.Sprintf("object-%d", w.names)
	return metav1.ObjectMeta{Name: name, UID: types.UID(name)}
}

func (w *hintWorld) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("5")}}}}},
	}
}

// changesOfKind make a change each.
var changesOfKind = map[changeKind]func(w *hintWorld){
	{fwk.Node, fwk.Add}: func(w *hintWorld) { w.upsert(eventlog.Nodes, &v1.Node{ObjectMeta: w.fresh()}) },
	{fwk.Node, fwk.Delete}: func(w *hintWorld) {
		n := &v1.Node{ObjectMeta: w.fresh()}
		w.upsert(eventlog.Nodes, n)
		w.listener.forget()
		w.take(&eventlog.Deleted{Resource: eventlog.Nodes, Name: n.Name, UID: n.UID})
	},
	{fwk.Node, fwk.UpdateNodeAllocatable}: changeNode(func(w *hintWorld, n *v1.Node) {
		cpu := n.Status.Allocatable[v1.ResourceCPU]
		cpu.Add(resource.MustParse("1"))
		n.Status.Allocatable[v1.ResourceCPU] = cpu
	}),
	{fwk.Node, fwk.UpdateNodeLabel}: changeNode(func(w *hintWorld, n *v1.Node) { n.Labels["zone"] += "b" }),
	{fwk.Node, fwk.UpdateNodeTaint}: changeNode(func(w *hintWorld, n *v1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: w.fresh().Name, Effect: v1.TaintEffectNoSchedule})
	}),
	{fwk.Node, fwk.UpdateNodeDeclaredFeature}: changeNode(func(w *hintWorld, n *v1.Node) {
		n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, w.fresh().Name)
	}),
	{fwk.Node, fwk.UpdateNodePreemptionPolicy}: changeNode(func(w *hintWorld, n *v1.Node) {
		n.Spec.PodPreemptionPolicy = &v1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"operator"}}
	}),

	{fwk.AssignedPod, fwk.Add}: func(w *hintWorld) {
		p := w.pod(w.fresh().Name)
		p.Spec.NodeName = w.node.Name
		w.upsert(eventlog.Pods, p)
	},
	{fwk.AssignedPod, fwk.Delete}: func(w *hintWorld) {
		p := w.pod(w.fresh().Name)
		p.Spec.NodeName = w.node.Name
		w.upsert(eventlog.Pods, p)
		w.listener.forget()
		w.take(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: p.Namespace, Name: p.Name, UID: p.UID})
	},
	{fwk.AssignedPod, fwk.UpdatePodLabel}:     changeOther(relabel),
	{fwk.AssignedPod, fwk.UpdatePodScaleDown}: changeOther(scale("-1")),
	{fwk.AssignedPod, fwk.UpdatePodScaleUp}:   changeOther(scale("1")),

	{fwk.TargetPod, fwk.UpdatePodLabel}:     changeTarget(relabel),
	{fwk.TargetPod, fwk.UpdatePodScaleDown}: changeTarget(scale("-1")),
	{fwk.TargetPod, fwk.UpdatePodScaleUp}:   changeTarget(scale("1")),
	{fwk.TargetPod, fwk.UpdatePodToleration}: changeTarget(func(w *hintWorld, p *v1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: w.fresh().Name,
			Operator: v1.TolerationOpExists})
	}),
	{fwk.TargetPod, fwk.UpdatePodSchedulingGatesEliminated}: func(w *hintWorld) {
		gates := []v1.PodSchedulingGate{{Name: "wait"}}
		changeTarget(func(_ *hintWorld, p *v1.Pod) { p.Spec.SchedulingGates = gates })(w)
		w.listener.forget()
		changeTarget(func(_ *hintWorld, p *v1.Pod) { p.Spec.SchedulingGates = nil })(w)
	},
	{fwk.TargetPod, fwk.UpdatePodGeneratedResourceClaim}: changeTarget(func(w *hintWorld, p *v1.Pod) {
		name := w.fresh().Name
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "claim", ResourceClaimName: &name}}
	}),
}

// objectsOfKind are the other resources, of which an object is added, changed or deleted.
var objectsOfKind = map[fwk.EventResource]struct {
	resource eventlog.Resource
	make     func(m metav1.ObjectMeta) eventlog.Object
}{
	fwk.PersistentVolume: {eventlog.PersistentVolumes, func(m metav1.ObjectMeta) eventlog.Object {
		return &v1.PersistentVolume{ObjectMeta: m}
	}},
	fwk.PersistentVolumeClaim: {eventlog.PersistentVolumeClaims, func(m metav1.ObjectMeta) eventlog.Object {
		return &v1.PersistentVolumeClaim{ObjectMeta: m}
	}},
	fwk.StorageClass: {eventlog.StorageClasses, func(m metav1.ObjectMeta) eventlog.Object {
		return &storagev1.StorageClass{ObjectMeta: m}
	}},
	fwk.CSINode: {eventlog.CSINodes, func(m metav1.ObjectMeta) eventlog.Object {
		return &storagev1.CSINode{ObjectMeta: m}
	}},
	fwk.CSIDriver: {eventlog.CSIDrivers, func(m metav1.ObjectMeta) eventlog.Object {
		return &storagev1.CSIDriver{ObjectMeta: m}
	}},
	fwk.CSIStorageCapacity: {eventlog.CSIStorageCapacities, func(m metav1.ObjectMeta) eventlog.Object {
		return &storagev1.CSIStorageCapacity{ObjectMeta: m}
	}},
	fwk.VolumeAttachment: {eventlog.VolumeAttachments, func(m metav1.ObjectMeta) eventlog.Object {
		return &storagev1.VolumeAttachment{ObjectMeta: m}
	}},
	fwk.ResourceClaim: {eventlog.ResourceClaims, func(m metav1.ObjectMeta) eventlog.Object {
		return &resourcev1.ResourceClaim{ObjectMeta: m}
	}},
	fwk.ResourceSlice: {eventlog.ResourceSlices, func(m metav1.ObjectMeta) eventlog.Object {
		return &resourcev1.ResourceSlice{ObjectMeta: m}
	}},
	fwk.DeviceClass: {eventlog.DeviceClasses, func(m metav1.ObjectMeta) eventlog.Object {
		return &resourcev1.DeviceClass{ObjectMeta: m}
	}},
}

// namespaced are the resources of objectsOfKind that are in a namespace.
var namespaced = []fwk.EventResource{fwk.PersistentVolumeClaim, fwk.CSIStorageCapacity, fwk.ResourceClaim}

// change makes a change of the kind, and reports whether it knows how.
func (w *hintWorld) change(kind changeKind) bool {
	if change := changesOfKind[kind]; change != nil {
		change(w)
		return true
	}
	of, ok := objectsOfKind[kind.resource]
	if !ok {
		return false
	}
	meta := w.fresh()
	if slices.Contains(namespaced, kind.resource) {
		meta.Namespace = "default"
	}
	w.upsert(of.resource, of.make(meta))
	switch kind.action {
	case fwk.Update:
		meta.Labels = map[string]string{"changed": "yes"}
		w.listener.forget()
		w.upsert(of.resource, of.make(meta))
	case fwk.Delete:
		w.listener.forget()
		w.take(&eventlog.Deleted{Resource: of.resource, Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID})
	}
	return true
}

func changeNode(change func(*hintWorld, *v1.Node)) func(*hintWorld) {
	return func(w *hintWorld) {
		change(w, w.node)
		w.upsert(eventlog.Nodes, w.node)
	}
}

func changeOther(change func(*hintWorld, *v1.Pod)) func(*hintWorld) {
	return func(w *hintWorld) {
		change(w, w.other)
		w.upsert(eventlog.Pods, w.other)
	}
}

func changeTarget(change func(*hintWorld, *v1.Pod)) func(*hintWorld) {
	return func(w *hintWorld) {
		change(w, w.target)
		w.upsert(eventlog.Pods, w.target)
	}
}

func relabel(w *hintWorld, p *v1.Pod) { p.Labels = map[string]string{"app": w.fresh().Name} }

func scale(by string) func(*hintWorld, *v1.Pod) {
	return func(_ *hintWorld, p *v1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		cpu := requests[v1.ResourceCPU]
		cpu.Add(resource.MustParse(by))
		requests[v1.ResourceCPU] = cpu
	}
}
