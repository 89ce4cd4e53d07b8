package coscheduling_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// stockConfig is the configuration that docs/GANGS.md gives for a stock kube-scheduler; %s are the arguments.
const stockConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    queueSort:
      enabled:
      - name: Coscheduling
      disabled:
      - name: "*"
    multiPoint:
      enabled:
      - name: Coscheduling
  pluginConfig:
  - name: Coscheduling
    args: %s
`

// stock is a real kube-scheduler with the gang plugin, on a cluster that a fake client keeps.
type stock struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	sched  *kubescheduler.Scheduler

	mu    sync.Mutex
	bound []string // names of pods, in the order in which they were bound
}

// newStock starts a scheduler with the arguments given, on nodes of 1 core each. kubeconfig may be nil.
func newStock(t *testing.T, args string, kubeconfig *restclient.Config, nodes ...string) *stock {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &stock{t: t, ctx: ctx, client: fake.NewClientset()}
	s.client.PrependReactor("create", "pods", s.bind)
	for _, name := range nodes {
		s.node(name)
	}
	factory := kubescheduler.NewInformerFactory(s.client, 0, nil)
	sched, err := kubescheduler.New(ctx, s.client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		kubescheduler.WithProfiles(profilesOf(t, args)...),
		kubescheduler.WithKubeConfig(kubeconfig),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{coscheduling.Name: coscheduling.New}),
		kubescheduler.WithPodMaxBackoffSeconds(1))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.sched = sched
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sched.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		factory.Shutdown()
	})
	return s
}

func profilesOf(t *testing.T, args string) []config.KubeSchedulerProfile {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(fmt.Appendf(nil, stockConfig, args), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*config.KubeSchedulerConfiguration).Profiles
}

// bind does what the API server does with a Binding; the tracker would store it as if it were the pod.
func (s *stock) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := create.GetObject().(*v1.Binding)
	obj, err := s.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := obj.(*v1.Pod).DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	s.mu.Lock()
	s.bound = append(s.bound, pod.Name)
	s.mu.Unlock()
	return true, binding, s.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
}

func (s *stock) node(name string) {
	s.t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:  resource.MustParse("1"),
		v1.ResourcePods: resource.MustParse("10"),
	}
	_, err := s.client.CoreV1().Nodes().Create(s.ctx, n, metav1.CreateOptions{})
	s.must(err)
}

// pods creates pods of 1 core each. They name their group as name says; nil for none.
func (s *stock) pods(name func(*v1.Pod), names ...string) {
	s.t.Helper()
	for _, n := range names {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: n, UID: types.UID(n)}}
		p.Spec.SchedulerName = "default-scheduler"
		p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
		if name != nil {
			name(p)
		}
		_, err := s.client.CoreV1().Pods("ml").Create(s.ctx, p, metav1.CreateOptions{})
		s.must(err)
	}
}

// byField names the PodGroup of scheduling.k8s.io.
func byField(group string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
}

// byLabel names a PodGroup by the label of scheduling.x-k8s.io.
func byLabel(group string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels = map[string]string{xscheduling.PodGroupLabel: group} }
}

// group creates a PodGroup of scheduling.k8s.io.
func (s *stock) group(name string, minCount int32) {
	s.t.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	_, err := s.client.SchedulingV1beta1().PodGroups("ml").Create(s.ctx, g, metav1.CreateOptions{})
	s.must(err)
}

// below creates a PodGroup below a CompositePodGroup.
func (s *stock) below(composite, name string, minCount int32) {
	s.t.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	g.Spec.ParentCompositePodGroupName = &composite
	_, err := s.client.SchedulingV1beta1().PodGroups("ml").Create(s.ctx, g, metav1.CreateOptions{})
	s.must(err)
}

// composite creates a CompositePodGroup.
func (s *stock) composite(name string, minGroupCount int32) {
	s.t.Helper()
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
	c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: minGroupCount}
	_, err := s.client.SchedulingV1alpha3().CompositePodGroups("ml").Create(s.ctx, c, metav1.CreateOptions{})
	s.must(err)
}

func (s *stock) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// isBound says which pods are bound by now, sorted.
func (s *stock) isBound() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.bound))
}

// eventually waits until what holds.
func (s *stock) eventually(what string, holds func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(
		s.ctx,
		5*time.Millisecond,
		10*time.Second,
		true,
		func(context.Context) (bool, error) { return holds(), nil },
	)
	if err != nil {
		s.t.Fatalf("not seen: %s; bound are %v, and pods say %q", what, s.isBound(), s.conditions())
	}
}

func (s *stock) eventuallyBound(names ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("exactly %v bound", names), func() bool { return slices.Equal(s.isBound(), names) })
}

// eventuallyGated waits until the scheduler keeps exactly these pods out of its queue.
func (s *stock) eventuallyGated(names ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%v kept out of the queue", names), func() bool {
		var kept []string
		for _, p := range s.sched.SchedulingQueue.UnschedulablePods() {
			kept = append(kept, p.Name)
		}
		return slices.Equal(slices.Sorted(slices.Values(kept)), names)
	})
}

// conditions returns the reasons that the scheduler has written on unscheduled pods, by name.
func (s *stock) conditions() map[string]string {
	said := map[string]string{}
	list, err := s.client.CoreV1().Pods("ml").List(context.Background(), metav1.ListOptions{})
	s.must(err)
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled {
				said[p.Name] = c.Message
			}
		}
	}
	return said
}

func TestInAStockSchedulerAGangWithAllItsMembersIsBound(t *testing.T) {
	s := newStock(t, "{}", nil, "n1", "n2", "n3")
	s.group("train", 3)
	s.pods(byField("train"), "train-0", "train-1", "train-2")
	s.eventuallyBound("train-0", "train-1", "train-2")
}

func TestInAStockSchedulerMembersWaitForEachOtherAndForTheirGroup(t *testing.T) {
	s := newStock(t, "{}", nil, "n1", "n2", "n3", "n4")
	s.pods(byField("train"), "train-0", "train-1")
	s.eventuallyGated("train-0", "train-1")
	s.group("train", 3)
	s.pods(nil, "single")
	s.eventuallyBound("single")
	s.eventuallyGated("train-0", "train-1")
	s.pods(byField("train"), "train-2")
	s.eventuallyBound("single", "train-0", "train-1", "train-2")
}

func TestInAStockSchedulerAGangThatDoesNotFitBindsNothingAndKeepsNothing(t *testing.T) {
	s := newStock(t, "{}", nil, "n1", "n2")
	s.group("train", 3)
	s.pods(byField("train"), "train-0", "train-1", "train-2")
	// Whichever member comes last finds both nodes held, and the others are released.
	s.eventually("one member fails and releases two", func() bool {
		var failed, released int
		for _, why := range s.conditions() {
			if strings.Contains(why, "pod group ml/train placed 2 of the 3 members it needs") {
				failed++
			}
			if strings.Contains(why, "another member of the pod group cannot be placed") {
				released++
			}
		}
		return failed >= 1 && released >= 1 && failed+released >= 3
	})
	s.pods(nil, "single-0", "single-1")
	s.eventuallyBound("single-0", "single-1")
	for _, name := range []string{"n3", "n4", "n5"} {
		s.node(name)
	}
	s.eventuallyBound("single-0", "single-1", "train-0", "train-1", "train-2")
}

func TestInAStockSchedulerTheGangsOfACompositeAreBoundTogether(t *testing.T) {
	s := newStock(t, "{}", nil, "n1", "n2", "n3", "n4")
	s.below("train", "leader", 1)
	s.below("train", "workers", 2)
	s.pods(byField("leader"), "leader-0")
	s.pods(byField("workers"), "worker-0", "worker-1")
	s.pods(nil, "single")
	s.eventuallyBound("single")
	s.eventuallyGated("leader-0", "worker-0", "worker-1")
	s.composite("train", 2)
	s.eventuallyBound("leader-0", "single", "worker-0", "worker-1")
}
