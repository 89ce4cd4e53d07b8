package framework_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// alikeWorld returns 80 nodes, half of them with an image.
func alikeWorld(t *testing.T) *memoWorld {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(5, 5))})
	for at := range 80 {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("node-%02d", at)
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi"),
			"pods": resource.MustParse("110")}
		if at >= 40 {
			node.Status.Images = []v1.ContainerImage{{Names: []string{"x:1"}, SizeBytes: 900 << 20}}
		}
		if _, err := w.state.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// alikePod returns a pod with that many containers. Only the first one has requests.
func alikePod(containers int) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace = "ns"
	for i := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Image: "x:1"})
	}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1"),
		"memory": resource.MustParse("1Gi")}
	return p
}

// place places the pod with both profiles, and returns the difference of their answers.
func (w *memoWorld) place(p *v1.Pod, name string) (framework.Placement, string) {
	p = p.DeepCopy()
	p.Name, p.UID = name, types.UID(name)
	with := w.with.Place(w.ctx, framework.NewCycleState(), p, 0, nil)
	without := w.without.Place(w.ctx, framework.NewCycleState(), p, 0, nil)
	return with, comparePlacements(with, without)
}

func withPort(p *v1.Pod, port v1.ContainerPort) *v1.Pod {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{port}
	return p
}

func withRequiredNodes(p *v1.Pod, required *v1.NodeSelector) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}},
		RequiredDuringSchedulingIgnoredDuringExecution:  required,
	}}
	return p
}

// TestPodsThatPluginsTreatDifferentlyAreInDifferentClasses places pods that have the same upstream signature, but that
// plugins treat differently.
func TestPodsThatPluginsTreatDifferentlyAreInDifferentClasses(t *testing.T) {
	tcp, udp := v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolTCP},
		v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolUDP}
	there := v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolTCP, HostIP: "127.0.0.1"}
	initPort := alikePod(1)
	initPort.Spec.InitContainers = []v1.Container{{Name: "i", Image: "x:1", Ports: []v1.ContainerPort{tcp}}}
	even := alikePod(3)
	for i := range even.Spec.Containers {
		even.Spec.Containers[i].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1"),
			"memory": resource.MustParse("1Gi")}
	}
	for _, c := range []struct {
		name       string
		stands     *v1.Pod // on the first 79 nodes
		first, one *v1.Pod
	}{
		{"the protocol of a port", withPort(alikePod(1), tcp), withPort(alikePod(1), udp), withPort(alikePod(1), tcp)},
		{"the address of a port", withPort(alikePod(1), there),
			withPort(alikePod(1), v1.ContainerPort{HostPort: 53, HostIP: "127.0.0.2", Protocol: v1.ProtocolTCP}),
			withPort(alikePod(1), there)},
		{"whose a port is", withPort(alikePod(1), tcp), initPort, withPort(alikePod(1), tcp)},
		{"how often an image is there", nil, alikePod(1), even},
		{"containers that request nothing", alikePod(1), alikePod(1), alikePod(60)},
		{"required terms, and none", nil, withRequiredNodes(alikePod(1), nil),
			withRequiredNodes(alikePod(1), &v1.NodeSelector{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := alikeWorld(t)
			if c.stands != nil {
				for at := range 79 {
					p := c.stands.DeepCopy()
					p.Name = fmt.Sprint("old-", at)
					p.UID = types.UID(p.Name)
					w.assume(p, fmt.Sprintf("node-%02d", at))
				}
			}
			for i := range 3 {
				if _, diff := w.place(c.first, fmt.Sprint("first-", i)); diff != "" {
					t.Fatalf("the first: %s", diff)
				}
			}
			for i := range 3 {
				if _, diff := w.place(c.one, fmt.Sprint("one-", i)); diff != "" {
					t.Errorf("the other: %s", diff)
				}
			}
		})
	}
}

// strange is a plugin that was not examined for classes.
type strange struct {
	name  string
	signs bool
	h     fwk.Handle
	most  int  // pods in all, before it refuses every node
	fails bool // its Score
}

func (s *strange) Name() string { return s.name }

func (s *strange) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if s.signs {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "no")
}

func (s *strange) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	nodes, err := s.h.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	pods := 0
	for _, n := range nodes {
		pods += len(n.GetPods())
	}
	if pods >= s.most {
		return fwk.NewStatus(fwk.Unschedulable, "there are enough")
	}
	return nil
}

func (s *strange) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	if s.fails {
		return 0, fwk.AsStatus(errors.New("broken"))
	}
	return 0, nil
}

func (s *strange) ScoreExtensions() fwk.ScoreExtensions { return nil }

// strangeWorld returns a world whose profiles also have these plugins.
func strangeWorld(t *testing.T, list ...*strange) *memoWorld {
	w := alikeWorld(t)
	registry, enabled := plugins.NewRegistry(), ""
	for _, s := range list {
		enabled += "{name: " + s.name + "}, "
		registry.Factories[s.name] = frameworkruntime.PluginFactory(func(_ context.Context, _ runtime.Object,
			h fwk.Handle) (fwk.Plugin, error) {
			out := *s
			out.h = h
			return &out, nil
		})
	}
	w.config = "profiles: [{plugins: {multiPoint: {enabled: [" + enabled +
		"], disabled: [{name: Coscheduling}, {name: DefaultPreemption}]}}}]"
	w.with, w.without = w.profile("with-strange", registry, w.inputs), w.profile("without-strange", registry, nil)
	return w
}

// TestAPluginThatNobodyHasLookedAtIsAlwaysAsked has a plugin that signs for all pods but reads more than the node.
func TestAPluginThatNobodyHasLookedAtIsAlwaysAsked(t *testing.T) {
	w := strangeWorld(t, &strange{name: "Quota", signs: true, most: 2})
	for i := range 4 {
		got, diff := w.place(alikePod(1), fmt.Sprint("p-", i))
		if diff != "" {
			t.Fatalf("pod %d: %s", i, diff)
		}
		if (got.Node != "") != (i < 2) {
			t.Fatalf("pod %d is placed on %q", i, got.Node)
		}
		if got.Node != "" {
			p := alikePod(1)
			p.Name = fmt.Sprint("p-", i)
			p.UID = types.UID(p.Name)
			w.assume(p, got.Node)
		}
	}
}

// TestOfTwoPluginsThatFailTheFirstIsBlamed also holds with classes.
func TestOfTwoPluginsThatFailTheFirstIsBlamed(t *testing.T) {
	w := strangeWorld(t, &strange{name: "BadA", most: 100, fails: true},
		&strange{name: "BadB", signs: true, most: 100, fails: true})
	for i := range 3 {
		got, diff := w.place(alikePod(1), fmt.Sprint("p-", i))
		if diff != "" || got.Status.Plugin() != "BadA" {
			t.Fatalf("%v: %s", got.Status, diff)
		}
	}
}

// TestAPodOfAGroupThatIsGoneIsNotTakenForOneOfAnother places pods that differ only in their PodGroup. Under the test's
// feature gate DynamicResources looks for the PodGroup, also for pods without claims.
func TestAPodOfAGroupThatIsGoneIsNotTakenForOneOfAnother(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.GenericWorkload: true, features.DRAWorkloadResourceClaims: true})
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(8, 8))})
	group := &schedulingv1beta1.PodGroup{}
	group.Namespace, group.Name = "ns", "there"
	if _, err := w.state.Upsert(eventlog.PodGroups, group); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i, name := range []string{"there", "gone", "there", "gone"} {
		pod := &v1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "ns", fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i))
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		pod.Spec.Containers = []v1.Container{{Name: "c"}}
		with := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
		without := w.without.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
		if diff := comparePlacements(with, without); diff != "" {
			t.Errorf("pod %d of group %s: with and without classes differ in %s", i, name, diff)
		}
		if without.Node == "" {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d pods were refused, want 2", refused)
	}
}
