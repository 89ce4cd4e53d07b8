package cluster

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"
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
		r := s.Pod("p").Requests()
		if r.GetMemory() < 0 || r.GetMilliCPU() < 0 {
			t.Fatalf("memory %d, cpu %d", r.GetMemory(), r.GetMilliCPU())
		}
		if outside && r.GetMemory() <= MostAmount {
			t.Fatalf("a request is out of range, and memory is %d", r.GetMemory())
		}
	})
}

func TestSumsOverNodesEndWhereAnInt64Does(t *testing.T) {
	const nodes = 8200 // of 2^50 each: more than 2^63 together
	c := &Capacity{bounded: true}
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
	need := newNeed(v1.ResourceMemory, requests, true, memory)
	for n, want := range map[int]int64{1: MostAmount, 4095: 4095 * MostAmount, 4096: mostSum, members: mostSum} {
		if got := need.smallest(n); got != want {
			t.Errorf("the smallest %d request %d, want %d", n, got, want)
		}
	}
	need = newNeed(v1.ResourceMemory, requests, false, memory)
	if got := need.smallest(members); got >= 0 {
		t.Errorf("before behaviour 3 the sum wraps, and old logs need it; it is %d", got)
	}
}
