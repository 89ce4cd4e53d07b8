package cluster

import (
	"math"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
)

// TestBoundedAmountsNeverWrap: whatever a pod requests, what is counted is not negative, and more than any node offers
// if a request was out of range.
func TestBoundedAmountsNeverWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", UID: "p"}}
		outside := false
		amount := rapid.SampledFrom([]string{"0", "100m", "1", "1Gi", "1Ti", "1Pi", "2Pi", "-1", "9223372036854775807",
			"9223372036854776", "1e300", "-1e300", "16Ei"})
		most := resource.MustParse("1Pi")
		for range rapid.IntRange(1, 20).Draw(t, "containers") {
			text := amount.Draw(t, "memory")
			q := resource.MustParse(text)
			outside = outside || q.Sign() < 0 || q.Cmp(most) > 0
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceMemory: q, v1.ResourceCPU: resource.MustParse(amount.Draw(t,
					"cpu"))},
			}})
		}
		s := New()
		if _, err := s.UpsertPod(BoundNumbers(pod).(*v1.Pod)); err != nil {
			t.Fatal(err)
		}
		r := s.Pods().Get("p").Requests()
		if r.GetMemory() < 0 || r.GetMilliCPU() < 0 {
			t.Fatalf("memory %d, cpu %d", r.GetMemory(), r.GetMilliCPU())
		}
		if outside && r.GetMemory() <= MostAmount {
			t.Fatalf("a request is out of range, and memory is %d", r.GetMemory())
		}
	})
}

// TestAnAmountOutOfRangeIsBoundedWhereverItStands has each list of a pod's amounts hold one that cannot be, by itself.
func TestAnAmountOutOfRangeIsBoundedWhereverItStands(t *testing.T) {
	for _, amount := range []string{"-1", "2Pi", "1e300"} {
		bad := v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount)}
		both := func(requests, limits v1.ResourceList) *v1.ResourceRequirements {
			return &v1.ResourceRequirements{Requests: requests, Limits: limits}
		}
		for place, put := range map[string]func(*v1.Pod){
			"requests": func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = bad },
			"limits":   func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = bad },
			"init container": func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{Resources: *both(bad, nil)}}
			},
			"the pod's requests": func(p *v1.Pod) { p.Spec.Resources = both(bad, nil) },
			"the pod's limits":   func(p *v1.Pod) { p.Spec.Resources = both(nil, bad) },
			"overhead":           func(p *v1.Pod) { p.Spec.Overhead = bad },
			"allocated":          func(p *v1.Pod) { p.Status.AllocatedResources = bad },
			"the status":         func(p *v1.Pod) { p.Status.Resources = both(bad, nil) },
			"a container's status": func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{{Resources: both(bad, nil)}}
			},
			"allocated to one": func(p *v1.Pod) {
				p.Status.InitContainerStatuses = []v1.ContainerStatus{{AllocatedResources: bad}}
			},
		} {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
			put(pod)
			pod = pod.DeepCopy()
			before := pod.DeepCopy()
			got := BoundNumbers(pod).(*v1.Pod)
			if q := got.Spec.Containers[0].Resources.Requests[v1.ResourceMemory]; q.Value() != MostAmount+1 {
				t.Errorf("%s in %s: the pod requests %s", amount, place, q.String())
			}
			if r := got.Spec.Resources; r != nil && r.Requests.Memory().Value() != MostAmount+1 {
				t.Errorf("%s in %s: the pod as a whole requests %s", amount, place, r.Requests.Memory())
			}
			if !equality.Semantic.DeepEqual(pod, before) {
				t.Errorf("%s in %s: the object itself was changed", amount, place)
			}
		}
	}
}

// TestSumsOfAPodAreBounded has amounts that are in range, each by itself.
func TestSumsOfAPodAreBounded(t *testing.T) {
	for _, tc := range []struct {
		name    v1.ResourceName
		amount  string
		times   int
		bounded bool
	}{
		{v1.ResourceMemory, "1Pi", 2, false},
		{v1.ResourceMemory, "1Pi", 3, true},
		{v1.ResourceCPU, "1125899906842624m", 2, false},
		{v1.ResourceCPU, "1125899906842624m", 3, true},
		{v1.ResourceCPU, "562949953421312m", 5, true}, // which is little of anything but cpu
		{"example.com/x", "1Pi", 3, true},
	} {
		pod := &v1.Pod{}
		for range tc.times {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{tc.name: resource.MustParse(tc.amount)}}})
		}
		if got := BoundNumbers(pod).(*v1.Pod); (got != pod) != tc.bounded {
			t.Errorf("%d times %s of %s: bounded %t, want %t", tc.times, tc.amount, tc.name, got != pod, tc.bounded)
		}
	}
}

func TestWhatNodesAndGroupsOfferAndNeedIsBounded(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	for _, tc := range []struct {
		cpu, memory   string
		milli, amount int64 // of a node
		same          bool
	}{
		{"4", "1Gi", 4000, 1 << 30, true},
		{"1125899906842624m", "1Pi", MostAmount, MostAmount, true},
		{"-1", "2Pi", 0, MostAmount, false},
		{"1125899906842625m", "-1", MostAmount, 0, false},
		{"1e300", "1", MostAmount, 1, false},
	} {
		in := list(tc.cpu, tc.memory)
		for _, node := range []*v1.Node{
			{Status: v1.NodeStatus{Allocatable: in}}, {Status: v1.NodeStatus{Capacity: in}},
		} {
			got := BoundNumbers(node).(*v1.Node)
			for _, l := range []v1.ResourceList{got.Status.Allocatable, got.Status.Capacity} {
				if l != nil && (l.Cpu().MilliValue() != tc.milli || l.Memory().Value() != tc.amount) {
					t.Errorf("%s, %s: the node has %v", tc.cpu, tc.memory, l)
				}
			}
			if (got == node) != tc.same {
				t.Errorf("%s, %s: the same node %t, want %t", tc.cpu, tc.memory, got == node, tc.same)
			}
		}
		group := &xscheduling.PodGroup{Spec: xscheduling.PodGroupSpec{MinResources: in.DeepCopy()}}
		got := BoundNumbers(group).(*xscheduling.PodGroup)
		if (got == group) != tc.same {
			t.Errorf("%s, %s: the same group %t, want %t", tc.cpu, tc.memory, got == group, tc.same)
		}
		other := &volcano.PodGroup{Spec: volcano.PodGroupSpec{MinResources: in.DeepCopy()}}
		if bounded := BoundNumbers(other).(*volcano.PodGroup); (bounded == other) != tc.same ||
			!reflect.DeepEqual(bounded.Spec.MinResources, got.Spec.MinResources) {
			t.Errorf("%s, %s: of Volcano's group %v, want %v", tc.cpu, tc.memory, bounded.Spec, got.Spec.MinResources)
		}
		if !tc.same {
			need := got.Spec.MinResources
			if need.Cpu().MilliValue() <= MostAmount && need.Memory().Value() <= MostAmount {
				t.Errorf("%s, %s: the group needs %v", tc.cpu, tc.memory, got.Spec.MinResources)
			}
		}
	}
}

func TestSumsOverNodesEndWhereAnInt64Does(t *testing.T) {
	const nodes = 8200 // of 2^50 each: more than 2^63 together
	c := &Capacity{}
	for range nodes {
		c.add(MostAmount, MostAmount, 0, 1, +1)
		c.addScalar("x", MostAmount, +1)
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "x"} {
		if free, _ := c.of(name); free != mostSum {
			t.Errorf("%s: %d free, want %d", name, free, int64(mostSum))
		}
	}
	for range nodes - 3 {
		c.add(MostAmount, MostAmount, 0, 1, -1)
		c.addScalar("x", MostAmount, -1)
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "x"} {
		if free, _ := c.of(name); free != 3*MostAmount {
			t.Errorf("%s: %d free, want %d", name, free, int64(3*MostAmount))
		}
	}
}

// TestSumsOfAGangsRequestsEndWhereAnInt64Does sums up what 8,200 members request of 2^50 each: more than 2^63 together.
func TestSumsOfAGangsRequestsEndWhereAnInt64Does(t *testing.T) {
	const members = 8200
	requests := make([]fwk.Resource, members)
	for i := range requests {
		requests[i] = &framework.Resource{Memory: MostAmount}
	}
	memory := func(r fwk.Resource) int64 { return r.GetMemory() }
	need := newNeed(v1.ResourceMemory, requests, memory)
	for n, want := range map[int]int64{1: MostAmount, 4095: 4095 * MostAmount, 4096: mostSum, members: mostSum} {
		if got := need.Smallest(n); got != want {
			t.Errorf("the smallest %d request %d, want %d", n, got, want)
		}
	}
}

func TestPercentOverflowsNowhere(t *testing.T) {
	for _, test := range []struct{ part, all, want int64 }{
		{0, 0, 0}, {1, 0, 0}, {-1, 4, 0}, {1, 4, 25}, {2, 3, 66}, {5, 4, 100},
		{math.MaxInt64 - 1, math.MaxInt64, 99}, {math.MaxInt64, math.MaxInt64, 100},
	} {
		if got := Percent(test.part, test.all); got != test.want {
			t.Errorf("%d of %d are %d in parts of a hundred, want %d", test.part, test.all, got, test.want)
		}
	}
}
