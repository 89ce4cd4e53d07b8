package kubesched

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// Scheduler is kube-scheduler's framework over the objects that were put into it. It is for one goroutine.
type Scheduler struct {
	ctx        context.Context
	framework  framework.Framework
	preemption *defaultpreemption.DefaultPreemption
	prebinders []fwk.PreBindPlugin
	informers  map[reflect.Type]*informer
	world      *world
	nodes      map[string]*v1.Node
	assigned   map[types.UID]*v1.Pod // with a node, also the assumed ones
	order      []types.UID           // of assigned
	version    int
	written    []Object
	made       string // the name of the claim that is made for extended resources
	patch      []byte // of the status of the pod for which it is made
	cycle      cycle
}

// world is the part of the plugins' handle beside the informers.
type world struct {
	*schedulercache.Snapshot
	nominated map[types.UID]*v1.Pod
}

// NominatedPodsForNode implements fwk.PodNominator.
func (w *world) NominatedPodsForNode(node string) (list []fwk.PodInfo) {
	for _, p := range w.nominated {
		if p.Status.NominatedNodeName == node {
			info, err := framework.NewPodInfo(p)
			if err != nil {
				panic(fmt.Sprintf("pod %s: %v", p.Name, err))
			}
			list = append(list, info)
		}
	}
	return list
}

// AddNominatedPod implements fwk.PodNominator: nominations come by Nominate alone.
func (w *world) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (w *world) DeleteNominatedPodIfExists(*v1.Pod) {}

// UpdateNominatedPod implements fwk.PodNominator.
func (w *world) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

// New returns a scheduler with kube-scheduler's plugins of a profile. It leaves out plugins that kube-scheduler does
// not have, and every PostFilter except DefaultPreemption's, which considers all nodes. ctx ends what New began.
func New(ctx context.Context, profile config.KubeSchedulerProfile) (*Scheduler, error) {
	metrics.Register()
	s := &Scheduler{
		ctx: klog.NewContext(ctx, logr.Discard()), informers: map[reflect.Type]*informer{},
		nodes: map[string]*v1.Node{}, assigned: map[types.UID]*v1.Pod{},
		world: &world{nominated: map[types.UID]*v1.Pod{}},
	}
	s.world.Snapshot = schedulercache.NewEmptySnapshot()
	client := s.newClient()
	factory := s.newFactory(client)
	claims := assumecache.NewAssumeCache(klog.FromContext(s.ctx), factory.Resource().V1().ResourceClaims().Informer(),
		"ResourceClaim", "", nil)
	tracker, err := resourceslicetracker.StartTracker(s.ctx,
		resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	if err != nil {
		return nil, err
	}
	devices := dynamicresources.NewDRAManager(s.ctx, claims, tracker, factory)
	if resources, ok := devices.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		// As kube-scheduler does (addAllEventHandlers).
		if _, err := s.told(&resourcev1.DeviceClass{}).AddEventHandler(resources); err != nil {
			return nil, err
		}
	}
	profile = *profile.DeepCopy()
	registry := plugins.NewInTreeRegistry()
	known := func(name string) bool { return registry[name] != nil && name != names.DefaultPreemption }
	adapt(&profile, known)
	for _, name := range []string{names.VolumeBinding, names.DynamicResources} {
		registry[name] = s.keep(registry[name])
	}
	s.framework, err = frameworkruntime.NewFramework(s.ctx, registry, &profile,
		frameworkruntime.WithSnapshotSharedLister(s.world),
		frameworkruntime.WithMutableSnapshotLister(s.world),
		frameworkruntime.WithPodNominator(s.world),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithLogger(klog.FromContext(s.ctx)),
	)
	if err != nil {
		return nil, err
	}
	s.preemption, err = defaultpreemption.New(s.ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100},
		s.framework, feature.Features{})
	return s, err
}

// adapt takes the unknown plugins out of a profile, and stops VolumeBinding from waiting in PreBind for volumes to be
// bound: nobody binds them meanwhile.
func adapt(profile *config.KubeSchedulerProfile, known func(string) bool) {
	sets := reflect.ValueOf(profile.Plugins).Elem()
	for i := range sets.NumField() {
		set := sets.Field(i).Addr().Interface().(*config.PluginSet)
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p config.Plugin) bool { return !known(p.Name) })
	}
	profile.Plugins.QueueSort.Enabled = []config.Plugin{{Name: names.PrioritySort}}
	profile.Plugins.PostFilter.Disabled = []config.Plugin{{Name: "*"}}
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(c config.PluginConfig) bool {
		return !known(c.Name)
	})
	for _, c := range profile.PluginConfig {
		if args, ok := c.Args.(*config.VolumeBindingArgs); ok {
			args.BindTimeoutSeconds = 0
		}
	}
}

// keep returns a factory that also adds its plugin to prebinders: Bind keeps the objects that these plugins write.
func (s *Scheduler) keep(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		made, err := factory(ctx, args, h)
		if err == nil {
			s.prebinders = append(s.prebinders, made.(fwk.PreBindPlugin))
		}
		return made, err
	}
}

// newClient returns a client that accepts every update, every new ResourceClaim and every patch of a pod, and keeps the
// written objects.
func (s *Scheduler) newClient() clientset.Interface {
	client := &fake.Clientset{}
	client.AddReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(Object)
		s.stamp(obj)
		s.written = append(s.written, obj)
		return true, obj, nil
	})
	client.AddReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*resourcev1.ResourceClaim)
		claim.Name, claim.UID = s.made, types.UID("claim-"+s.made)
		s.stamp(claim)
		s.written = append(s.written, claim)
		return true, claim, s.told(claim).put(claim) // DynamicResources waits until the watch shows it
	})
	client.AddReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.patch = action.(clienttesting.PatchAction).GetPatch()
		return true, &v1.Pod{}, nil
	})
	return client
}

// newFactory returns a factory of informers that Put and Delete feed.
func (s *Scheduler) newFactory(client clientset.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	apart := informers.NewSharedInformerFactory(client, 0)
	coreApart, storageApart, resourceApart := apart.Core().V1(), apart.Storage().V1(), apart.Resource().V1()
	for _, kind := range []struct {
		object Object
		made   cache.SharedIndexInformer
	}{
		{&v1.Pod{}, coreApart.Pods().Informer()},
		{&v1.Node{}, coreApart.Nodes().Informer()},
		{&v1.Namespace{}, coreApart.Namespaces().Informer()},
		{&v1.Service{}, coreApart.Services().Informer()},
		{&v1.ReplicationController{}, coreApart.ReplicationControllers().Informer()},
		{&v1.PersistentVolume{}, coreApart.PersistentVolumes().Informer()},
		{&v1.PersistentVolumeClaim{}, coreApart.PersistentVolumeClaims().Informer()},
		{&appsv1.ReplicaSet{}, apart.Apps().V1().ReplicaSets().Informer()},
		{&appsv1.StatefulSet{}, apart.Apps().V1().StatefulSets().Informer()},
		{&policyv1.PodDisruptionBudget{}, apart.Policy().V1().PodDisruptionBudgets().Informer()},
		{&storagev1.StorageClass{}, storageApart.StorageClasses().Informer()},
		{&storagev1.CSINode{}, storageApart.CSINodes().Informer()},
		{&storagev1.CSIDriver{}, storageApart.CSIDrivers().Informer()},
		{&storagev1.CSIStorageCapacity{}, storageApart.CSIStorageCapacities().Informer()},
		{&storagev1.VolumeAttachment{}, storageApart.VolumeAttachments().Informer()},
		{&resourcev1.ResourceClaim{}, resourceApart.ResourceClaims().Informer()},
		{&resourcev1.ResourceSlice{}, resourceApart.ResourceSlices().Informer()},
		{&resourcev1.DeviceClass{}, resourceApart.DeviceClasses().Informer()},
	} {
		told := newInformer(kind.made)
		s.informers[reflect.TypeOf(kind.object)] = told
		factory.InformerFor(kind.object, func(clientset.Interface, time.Duration) cache.SharedIndexInformer {
			return told
		})
	}
	return factory
}

func (s *Scheduler) told(kind Object) *informer { return s.informers[reflect.TypeOf(kind)] }

// stamp gives an object a resource version above all earlier ones: assume caches go by it.
func (s *Scheduler) stamp(obj Object) {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
}

// Put sets the state of an object, as a watch does. It copies the object.
func (s *Scheduler) Put(obj Object) error {
	obj = obj.DeepCopyObject().(Object)
	s.stamp(obj)
	switch o := obj.(type) {
	case *v1.Node:
		s.nodes[o.Name] = o
	case *v1.Pod:
		s.place(o)
	}
	told := s.told(obj)
	if told == nil {
		return fmt.Errorf("%T is not known", obj)
	}
	return told.put(obj)
}

// Delete removes an object.
func (s *Scheduler) Delete(obj Object) error {
	switch o := obj.(type) {
	case *v1.Node:
		delete(s.nodes, o.Name)
	case *v1.Pod:
		s.displace(o.UID)
		delete(s.world.nominated, o.UID)
	}
	return s.told(obj).remove(obj)
}

// place counts a pod on its node if it has one and has not ended.
func (s *Scheduler) place(p *v1.Pod) {
	ended := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	if p.Spec.NodeName == "" || ended {
		if ended {
			s.displace(p.UID)
		}
		return // it may be assumed
	}
	if s.assigned[p.UID] == nil {
		s.order = append(s.order, p.UID)
	}
	s.assigned[p.UID] = p
	delete(s.world.nominated, p.UID)
}

func (s *Scheduler) displace(uid types.UID) {
	delete(s.assigned, uid)
	s.order = slices.DeleteFunc(s.order, func(other types.UID) bool { return other == uid })
}

// Nominate keeps room for a pod on a node; "" for none.
func (s *Scheduler) Nominate(pod *v1.Pod, node string) {
	if node == "" {
		delete(s.world.nominated, pod.UID)
		return
	}
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	s.world.nominated[pod.UID] = pod
}

// refresh updates the snapshot of nodes and pods that the plugins see.
func (s *Scheduler) refresh() {
	var pods []*v1.Pod
	for _, uid := range s.order {
		pods = append(pods, s.assigned[uid])
	}
	var nodes []*v1.Node
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		nodes = append(nodes, s.nodes[name])
	}
	s.world.Snapshot = schedulercache.NewSnapshot(pods, nodes)
}
