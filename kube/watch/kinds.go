package watch

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A kind is a resource and how it is watched.
type kind struct {
	resource eventlog.Resource
	// source lists and watches it; nil: by the dynamic client.
	source func(kubernetes.Interface) source
	// whole: its objects are kept as they are, for effects.
	whole bool
	// own is the declaration of a resource that a plugin reads; nil for one of scheduling.
	own *eventlog.OwnResource
}

// kinds are all resources of the log, in the order of the reconciling step: first the objects that others refer to,
// nodes before pods, pods last. Such resources as Namespaces do not decide alone whether a pod can be placed.
var kinds = []kind{
	{eventlog.Namespaces, func(c kubernetes.Interface) source { return typed(c.CoreV1().Namespaces()) }, false, nil},
	{eventlog.PriorityClasses,
		func(c kubernetes.Interface) source { return typed(c.SchedulingV1().PriorityClasses()) }, false, nil},
	{eventlog.Services, func(c kubernetes.Interface) source { return typed(c.CoreV1().Services("")) }, false, nil},
	{eventlog.ReplicationControllers,
		func(c kubernetes.Interface) source { return typed(c.CoreV1().ReplicationControllers("")) }, false, nil},
	{eventlog.ReplicaSets,
		func(c kubernetes.Interface) source { return typed(c.AppsV1().ReplicaSets("")) }, false, nil},
	{eventlog.StatefulSets,
		func(c kubernetes.Interface) source { return typed(c.AppsV1().StatefulSets("")) }, false, nil},
	{eventlog.PodDisruptionBudgets,
		func(c kubernetes.Interface) source { return typed(c.PolicyV1().PodDisruptionBudgets("")) }, false, nil},
	{eventlog.StorageClasses,
		func(c kubernetes.Interface) source { return typed(c.StorageV1().StorageClasses()) }, false, nil},
	{eventlog.CSIDrivers, func(c kubernetes.Interface) source { return typed(c.StorageV1().CSIDrivers()) }, false, nil},
	{eventlog.CSINodes, func(c kubernetes.Interface) source { return typed(c.StorageV1().CSINodes()) }, false, nil},
	{eventlog.CSIStorageCapacities,
		func(c kubernetes.Interface) source { return typed(c.StorageV1().CSIStorageCapacities("")) }, false, nil},
	{eventlog.PersistentVolumes,
		func(c kubernetes.Interface) source { return typed(c.CoreV1().PersistentVolumes()) }, true, nil},
	{eventlog.PersistentVolumeClaims,
		func(c kubernetes.Interface) source { return typed(c.CoreV1().PersistentVolumeClaims("")) }, true, nil},
	{eventlog.VolumeAttachments,
		func(c kubernetes.Interface) source { return typed(c.StorageV1().VolumeAttachments()) }, false, nil},
	{eventlog.DeviceClasses,
		func(c kubernetes.Interface) source { return typed(c.ResourceV1().DeviceClasses()) }, false, nil},
	{eventlog.DeviceTaintRules,
		func(c kubernetes.Interface) source { return typed(c.ResourceV1().DeviceTaintRules()) }, false, nil},
	{eventlog.ResourceSlices,
		func(c kubernetes.Interface) source { return typed(c.ResourceV1().ResourceSlices()) }, false, nil},
	{eventlog.ResourceClaims,
		func(c kubernetes.Interface) source { return typed(c.ResourceV1().ResourceClaims("")) }, true, nil},
	{eventlog.CompositePodGroups,
		func(c kubernetes.Interface) source { return typed(c.SchedulingV1alpha3().CompositePodGroups("")) }, true, nil},
	{eventlog.PodGroups,
		func(c kubernetes.Interface) source { return typed(c.SchedulingV1beta1().PodGroups("")) }, true, nil},
	{eventlog.XPodGroups, nil, true, nil},
	{eventlog.VolcanoPodGroups, nil, false, nil},
	{eventlog.KAIPodGroups, nil, false, nil},
	{eventlog.Nodes, func(c kubernetes.Interface) source { return typed(c.CoreV1().Nodes()) }, false, nil},
	{eventlog.Pods, func(c kubernetes.Interface) source { return typed(c.CoreV1().Pods("")) }, false, nil},
}

// places are the resources' places in kinds.
var places = func() map[eventlog.Resource]int {
	m := map[eventlog.Resource]int{}
	for i, k := range kinds {
		m[k.resource] = i
	}
	return m
}()

// kindsWith returns all kinds, with the kinds of plugins last: so the places of the others are the same in every Watch.
// own are as eventlog.CompleteOwn returns them.
func kindsWith(own []eventlog.OwnResource) []kind {
	all := slices.Clone(kinds)
	for i := range own {
		all = append(all, kind{resource: own[i].Resource, own: &own[i]})
	}
	return all
}

// group returns the API group, version and name of the resource.
func (k kind) group() schema.GroupVersionResource {
	if k.own != nil {
		return k.own.GroupVersionResource()
	}
	name, _, _ := strings.Cut(string(k.resource), ".")
	return eventlog.KindFor(k.resource).GroupVersion().WithResource(name)
}

// example returns an object such as the source gives.
func (k kind) example() any {
	if k.source != nil {
		return eventlog.NewObject(k.resource)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(eventlog.KindFor(k.resource))
	if k.own != nil {
		u.SetGroupVersionKind(k.own.GroupVersionKind())
	}
	return u
}

// of returns the source of the kind's objects, and the client that they come by.
func (k kind) of(client kubernetes.Interface, custom dynamic.Interface) (source, any) {
	if k.source != nil {
		return k.source(client), client
	}
	return typed(custom.Resource(k.group())), custom
}

// A source lists and watches the objects of one resource.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// lister has the methods that the clients of resources have in common.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error)
}

var _ lister[*unstructured.UnstructuredList] = dynamic.ResourceInterface(nil)

func typed[L runtime.Object](c lister[L]) source {
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, opts) }
	return source{list, c.Watch}
}

// asListWatch returns the source as a reflector wants it. told learns how every request went.
func (s source) asListWatch(client any, told func(verb string, streamed bool, err error)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := s.list(ctx, opts)
			told("list", false, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := s.watch(ctx, opts)
			told("watch", opts.SendInitialEvents != nil && *opts.SendInitialEvents, err)
			return w, err
		},
	}, client)
}
