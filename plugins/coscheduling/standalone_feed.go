package coscheduling

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// newStock makes the plugin for a stock kube-scheduler and begins to watch PodGroups. It stops when ctx is done.
//
// Pods come from the scheduler's own informer. PodGroups of all APIs and CompositePodGroups come from informers of the
// plugin's own. The scheduler waits for its own informers before it schedules anything, and so would not start where
// one of the APIs is not served. The plugin's informers ask again, at most 30 seconds apart, until it is.
func newStock(ctx context.Context, h fwk.Handle, args Args) (fwk.Plugin, error) {
	if err := args.stock(); err != nil {
		return nil, err
	}
	shared := h.SharedInformerFactory()
	if shared == nil {
		return nil, fmt.Errorf("handle %T offers no view of pod groups, and no informers to make one of", h)
	}
	pods := shared.Core().V1().Pods()
	s := newStandalone(klog.FromContext(ctx), h, args, pods.Lister(), clock.RealClock{})
	if _, err := pods.Informer().AddEventHandler(s.podHandler()); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	own := informers.NewSharedInformerFactory(h.ClientSet(), 0)
	if err := s.watchGroups(eventlog.PodGroups, own.Scheduling().V1beta1().PodGroups().Informer()); err != nil {
		return nil, err
	}
	if err := s.watchGroups(
		eventlog.CompositePodGroups,
		own.Scheduling().V1alpha3().CompositePodGroups().Informer(),
	); err != nil {
		return nil, err
	}
	own.Start(ctx.Done())
	config := h.KubeConfig()
	if config == nil {
		s.logger.Info("The scheduler gives its plugins no kubeconfig: PodGroups that are custom resources are not read")
		return s, nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for PodGroups that are custom resources: %w", err)
	}
	custom := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for _, res := range cluster.GroupResources() {
		if res == eventlog.PodGroups {
			continue // watched above
		}
		resource := eventlog.KindFor(res).GroupVersion().WithResource("podgroups")
		if err := s.watchGroups(res, custom.ForResource(resource).Informer()); err != nil {
			return nil, err
		}
	}
	custom.Start(ctx.Done())
	return s, nil
}

// watchGroups feeds the view from an informer of PodGroups or CompositePodGroups that has not been started.
func (s *standalone) watchGroups(res eventlog.Resource, informer cache.SharedIndexInformer) error {
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			s.logger.V(4).Info("Not served", "resource", res)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", res, err)
	}
	if _, err := informer.AddEventHandler(s.groupHandler(res)); err != nil {
		return fmt.Errorf("watch %s: %w", res, err)
	}
	return nil
}

// gangs are names of gangs that something has changed for.
type gangs []types.NamespacedName

// change applies changes to the view and handles their gangs: held members are allowed or released. It asks the
// scheduler to check members again that were turned away and would not be now.
func (s *standalone) change(news func() (gangs, error)) {
	s.mu.Lock()
	about, err := news()
	wake := map[string]*v1.Pod{}
	for _, name := range about {
		s.lookAt(name, wake)
	}
	s.mu.Unlock()
	if err != nil {
		utilruntime.HandleErrorWithLogger(s.logger, err, "The view of gangs is not what the API says")
	}
	if len(wake) > 0 {
		s.handle.Activate(s.logger, wake)
	}
}

// lookAt handles one gang, and the gangs that are admitted together with it, or want to be.
func (s *standalone) lookAt(name types.NamespacedName, wake map[string]*v1.Pod) {
	var concerned []*cluster.Group
	if g := s.view.state.Gangs().Named(name.Namespace, name.Name); g != nil {
		concerned = append(concerned, g.Unit()...)
	} else {
		delete(s.view.records, name)
	}
	for _, c := range s.view.state.Gangs().CompositesNaming(name) {
		concerned = append(concerned, c.Gangs()...)
	}
	for _, g := range concerned {
		s.releaseOrAllow(g)
		s.wake(g, wake)
	}
}

// releaseOrAllow releases the waiting members of a gang that contradicts itself or is not declared any more, or whose
// composite is so: its minimum is not known then. It allows the members of g's unit that have become complete without
// another cycle.
func (s *standalone) releaseOrAllow(g *cluster.Group) {
	if !anyWaits(g) {
		return
	}
	if u := s.gang.tally(g); !u.Known() {
		s.gang.release(g, &u, gang.OnNodes)
	}
	u := s.gang.tally(g)
	s.gang.allow(g, &u, gang.Free)
}

// wake collects the members of g to check again.
func (s *standalone) wake(g *cluster.Group, into map[string]*v1.Pod) {
	if r, ok := s.view.records[g.Key()]; !ok || !r.turnedAway {
		return
	}
	members := pending(g)
	if len(members) == 0 || !s.gang.PreEnqueue(context.Background(), members[0].Object).IsSuccess() {
		return
	}
	s.view.record(g).turnedAway = false
	for _, p := range members {
		into[p.Object.Namespace+"/"+p.Object.Name] = p.Object
	}
}

func (s *standalone) podHandler() cache.ResourceEventHandler {
	came := func(obj any) {
		if pod, ok := obj.(*v1.Pod); ok {
			s.podCame(pod)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    came,
		UpdateFunc: func(_, obj any) { came(obj) },
		DeleteFunc: func(obj any) {
			if pod, ok := last(obj).(*v1.Pod); ok {
				s.podWent(pod)
			}
		},
	}
}

func (s *standalone) podCame(pod *v1.Pod) {
	if !s.concerns(pod) {
		return
	}
	s.change(func() (gangs, error) {
		err := s.view.podIs(pod)
		return gangsOf(s.view.state.Gangs().NameOf(pod)), err
	})
}

// podWent takes a pod out. If its gang held it, and not enough are left, the others are released.
func (s *standalone) podWent(pod *v1.Pod) {
	if !s.concerns(pod) {
		return
	}
	s.change(func() (gangs, error) {
		p, err := s.view.podGone(pod.UID)
		if p == nil {
			return nil, err
		}
		if p.Stage == cluster.Waiting || p.Stage == cluster.Binding {
			s.lost(p.Group, p.Stage)
		}
		return gangs{p.Group.Key()}, err
	})
}

// concerns reports whether the pod is a member of a gang, or was one when it came.
func (s *standalone) concerns(pod *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.counts(pod) || s.view.state.Pods().Get(pod.UID) != nil
}

func gangsOf(name types.NamespacedName, ok bool) gangs {
	if !ok {
		return nil
	}
	return gangs{name}
}

func (s *standalone) groupHandler(res eventlog.Resource) cache.ResourceEventHandler {
	came := func(obj any) {
		g, err := podGroup(res, obj)
		if err != nil {
			utilruntime.HandleErrorWithLogger(s.logger, err, "A PodGroup is passed over", "resource", res)
			return
		}
		s.groupCame(res, g)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    came,
		UpdateFunc: func(_, obj any) { came(obj) },
		DeleteFunc: func(obj any) {
			if g, ok := last(obj).(metav1.Object); ok {
				s.groupWent(res, types.NamespacedName{Namespace: g.GetNamespace(), Name: g.GetName()})
			}
		},
	}
}

// groupCame takes a PodGroup or CompositePodGroup in. If a PodGroup asks for fewer members than before, its failed
// members are tried again.
func (s *standalone) groupCame(res eventlog.Resource, obj eventlog.Object) {
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	s.change(func() (gangs, error) {
		if res == eventlog.CompositePodGroups {
			_, err := s.view.state.Upsert(res, obj)
			return s.below(name), err
		}
		before := 0
		if g := s.view.state.Gangs().Named(name.Namespace, name.Name); g != nil && g.Declared() {
			before = g.Min()
		}
		if _, err := s.view.state.Upsert(res, obj); err != nil {
			return nil, err
		}
		if g := s.view.state.Gangs().Named(name.Namespace, name.Name); g != nil && g.Min() < before {
			s.view.record(g).turnedAway = true
		}
		return gangs{name}, nil
	})
}

func (s *standalone) groupWent(res eventlog.Resource, name types.NamespacedName) {
	s.change(func() (gangs, error) {
		s.view.state.Delete(res, name.Namespace, name.Name)
		if res == eventlog.CompositePodGroups {
			return s.below(name), nil
		}
		return gangs{name}, nil
	})
}

// below returns the gangs that name the CompositePodGroup.
func (s *standalone) below(composite types.NamespacedName) gangs {
	var names gangs
	for _, g := range s.view.state.Gangs().Below(composite.Namespace, composite.Name) {
		names = append(names, g.Key())
	}
	return names
}

// podGroup returns an informer's object as the type that package cluster knows.
func podGroup(res eventlog.Resource, obj any) (eventlog.Object, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		g := eventlog.NewObject(res)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, g); err != nil {
			return nil, fmt.Errorf("read PodGroup %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		return g, nil
	case eventlog.Object:
		return o, nil
	}
	return nil, fmt.Errorf("read PodGroup: it is a %T", obj)
}

// last returns the object that an informer says was deleted, as far as it knows it.
func last(obj any) any {
	if unseen, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return unseen.Obj
	}
	return obj
}
