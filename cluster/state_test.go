package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// testState is a State whose methods must not fail.
type testState struct {
	*State
	t testing.TB
}

func newState(t testing.TB) testState { return testState{State: New(), t: t} }

func (s testState) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func quantities(amounts map[v1.ResourceName]int64) v1.ResourceList {
	list := v1.ResourceList{}
	// any order: fills a map
	for name, n := range amounts {
		list[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return list
}

// node is a node of so many cores.
func (s testState) node(name string, cores int64, edits ...func(*v1.Node)) {
	s.t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = quantities(map[v1.ResourceName]int64{v1.ResourceCPU: cores, v1.ResourcePods: 10})
	for _, edit := range edits {
		edit(n)
	}
	_, err := s.UpsertNode(n)
	s.must(err)
}

// podOf is a pod of so many cores.
func podOf(name string, cores int64, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	requests := quantities(map[v1.ResourceName]int64{v1.ResourceCPU: cores})
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func standsOn(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func memberOf(group string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels = map[string]string{xscheduling.PodGroupLabel: group} }
}
func gated(p *v1.Pod)       { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gate"}} }
func terminating(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func (s testState) pod(p *v1.Pod) *Pod {
	s.t.Helper()
	_, err := s.UpsertPod(p)
	s.must(err)
	return s.Pods().Get(p.UID)
}

// books are the pods on each node, and the numbers of members of group g at each stage.
func (s testState) books() string {
	var b strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(s.pods.byUID)) {
		p := s.pods.byUID[uid]
		fmt.Fprintf(&b, "%s %s", uid, p.Stage)
		if p.Node != "" {
			fmt.Fprintf(&b, " on %s", p.Node)
		}
		b.WriteString("; ")
	}
	for _, info := range s.nodes.listed {
		fmt.Fprintf(
			&b,
			"%s %d; ",
			info.Node().Name,
			info.GetAllocatable().GetMilliCPU()-info.GetRequested().GetMilliCPU(),
		)
	}
	if g := s.Gangs().Named("default", "g"); g != nil {
		fmt.Fprintf(&b, "g ready %d waiting %d assigned %d", g.Ready(), g.Waiting(), g.Assigned())
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestAPodHoldsItsPlaceAtEveryStageButPending(t *testing.T) {
	cases := []struct {
		name string
		do   func(s testState, p *Pod)
		want string
	}{
		{"it comes", func(testState, *Pod) {}, "p Pending; a 4000; b 4000; g ready 1 waiting 0 assigned 0"},
		{"held", func(s testState, p *Pod) { s.must(s.Assume(p, "a", Waiting, nil)) },
			"p Waiting on a; a 3000; b 4000; g ready 0 waiting 1 assigned 0"},
		{"held, then let go on", func(s testState, p *Pod) { s.must(s.Assume(p, "a", Waiting, nil)); s.Allow(p) },
			"p Binding on a; a 3000; b 4000; g ready 0 waiting 0 assigned 1"},
		{"confirmed", func(s testState, p *Pod) { s.must(s.Assume(p, "a", Binding, nil)); s.must(s.Confirm(p)) },
			"p Bound on a; a 3000; b 4000; g ready 0 waiting 0 assigned 1"},
		{
			"released from its wait",
			func(s testState, p *Pod) { s.must(s.Assume(p, "a", Waiting, nil)); s.must(s.Release(p)) },
			"p Pending; a 4000; b 4000; g ready 1 waiting 0 assigned 0",
		},
		{
			"released from its bind",
			func(s testState, p *Pod) { s.must(s.Assume(p, "a", Binding, nil)); s.must(s.Release(p)) },
			"p Pending; a 4000; b 4000; g ready 1 waiting 0 assigned 0",
		},
		{"assumed again elsewhere", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Binding, nil))
			s.must(s.Release(p))
			s.must(s.Assume(p, "b", Binding, nil))
		}, "p Binding on b; a 4000; b 3000; g ready 0 waiting 0 assigned 1"},
		{"seen bound where it was assumed", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Binding, nil))
			s.pod(podOf("p", 1, memberOf("g"), standsOn("a")))
		}, "p Bound on a; a 3000; b 4000; g ready 0 waiting 0 assigned 1"},
		{"seen bound elsewhere while held", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Waiting, nil))
			s.pod(podOf("p", 1, memberOf("g"), standsOn("b")))
		}, "p Bound on b; a 4000; b 3000; g ready 0 waiting 0 assigned 1"},
		{
			"seen bound on a node that is not there",
			func(s testState, _ *Pod) { s.pod(podOf("p", 1, memberOf("g"), standsOn("c"))) },
			"p Bound on c; a 4000; b 4000; g ready 0 waiting 0 assigned 0",
		},
		{"changed while held", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Waiting, nil))
			s.pod(podOf("p", 3, memberOf("g")))
		}, "p Waiting on a; a 1000; b 4000; g ready 0 waiting 1 assigned 0"},
		{"changed while held, then released", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Waiting, nil))
			s.pod(podOf("p", 3, memberOf("g"), terminating))
			s.must(s.Release(p))
		}, "p Pending; a 4000; b 4000; g ready 0 waiting 0 assigned 0"},
		{"an old object after it was bound", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Binding, nil))
			s.must(s.Confirm(p))
			s.pod(podOf("p", 1, memberOf("g")))
		}, "p Bound on a; a 3000; b 4000; g ready 0 waiting 0 assigned 1"},
		{"gated", func(s testState, _ *Pod) { s.pod(podOf("p", 1, memberOf("g"), gated)) },
			"p Pending; a 4000; b 4000; g ready 0 waiting 0 assigned 0"},
		{"named by another label later", func(s testState, _ *Pod) { s.pod(podOf("p", 1, memberOf("other"))) },
			"p Pending; a 4000; b 4000; g ready 1 waiting 0 assigned 0"},
		{"deleted while held", func(s testState, p *Pod) {
			s.must(s.Assume(p, "a", Waiting, nil))
			_, err := s.DeletePod("p")
			s.must(err)
		}, "a 4000; b 4000"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newState(t)
			s.node("a", 4)
			s.node("b", 4)
			c.do(s, s.pod(podOf("p", 1, memberOf("g"))))
			if got := s.books(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p := s.Pods().Get("p"); p != nil && p.Placed().Spec.NodeName != p.Node {
				t.Errorf("plugins see the pod on %q", p.Placed().Spec.NodeName)
			}
		})
	}
}

func TestAPodIsAssumedOnce(t *testing.T) {
	s := newState(t)
	s.node("a", 4)
	p := s.pod(podOf("p", 1))
	s.must(s.Assume(p, "a", Binding, nil))
	if err := s.Assume(p, "a", Binding, nil); err == nil || !strings.Contains(err.Error(), "it is Binding already") {
		t.Errorf("assumed twice: %v", err)
	}
}

func TestTwoPodsOfOneNameAreAnError(t *testing.T) {
	s := newState(t)
	s.pod(podOf("p", 1))
	if _, err := s.UpsertPod(podOf("p", 1, func(p *v1.Pod) { p.UID = "another" })); err == nil {
		t.Error("a second pod took the name of one that is there")
	}
}

// TestPodAndNodeEventsComeInAnyOrder: what a node that is not there holds is kept, and counts again when it is.
func TestPodAndNodeEventsComeInAnyOrder(t *testing.T) {
	s := newState(t)
	want := func(step, want string) {
		t.Helper()
		if got := s.books(); got != want {
			t.Errorf("%s: got %s, want %s", step, got, want)
		}
	}
	s.pod(podOf("early", 1, standsOn("a")))
	want("a pod before its node", "early Bound on a")
	s.node("a", 4)
	want("its node", "early Bound on a; a 3000")
	s.DeleteNode("a")
	want("the node goes", "early Bound on a")
	if _, err := s.Nodes().Get("a"); err == nil || s.Nodes().Object("a") != nil {
		t.Error("a node is there that was deleted")
	}
	s.node("a", 8)
	want("it comes back", "early Bound on a; a 7000")
	s.DeleteNode("a")
	_, err := s.DeletePod("early")
	s.must(err)
	if len(s.nodes.byName) != 0 || !capacitiesEqual(s.free, Capacity{}) {
		t.Errorf("the last pod of a node that is gone leaves %v, free %+v", s.nodes, s.free)
	}
	if s.DeleteNode("a") != nil {
		t.Error("a node was deleted that is not there")
	}
}

func capacitiesEqual(a, b Capacity) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && a.EphemeralStorage == b.EphemeralStorage &&
		a.Pods == b.Pods && maps.Equal(a.Scalar, b.Scalar)
}

func TestImagesAreCountedOverTheNodesThatHaveThem(t *testing.T) {
	s := newState(t)
	has := func(size int64, names ...string) func(*v1.Node) {
		return func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: names, SizeBytes: size}} }
	}
	want := func(step string, want string) {
		t.Helper()
		var b strings.Builder
		for _, info := range s.nodes.listed {
			states := info.GetImageStates()
			for _, name := range slices.Sorted(maps.Keys(states)) {
				fmt.Fprintf(
					&b,
					"%s:%s %d bytes on %d; ",
					info.Node().Name,
					name,
					states[name].Size,
					states[name].NumNodes,
				)
			}
		}
		if got := strings.TrimSuffix(b.String(), "; "); got != want {
			t.Errorf("%s: got %s, want %s", step, got, want)
		}
	}
	s.node("a", 1, has(10, "x", "x@sha256:1"))
	s.node("b", 1, has(10, "x"))
	want("two nodes", "a:x 10 bytes on 2; a:x@sha256:1 10 bytes on 1; b:x 10 bytes on 2")
	s.node("a", 1, has(20, "y"))
	want("one changes", "a:y 20 bytes on 1; b:x 10 bytes on 1")
	s.DeleteNode("b")
	want("one goes", "a:y 20 bytes on 1")
	s.node("b", 1, has(30, "x"))
	want("it comes back with another size", "a:y 20 bytes on 1; b:x 30 bytes on 1")
	s.DeleteNode("a")
	s.DeleteNode("b")
	if len(s.nodes.images) != 0 {
		t.Errorf("no node is left, and images are: %v", s.nodes.images)
	}
}

func TestNodesWithAffinityAreListedByName(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.InterPodAffinityHostnameFastPath, true)
	anti := func(p *v1.Pod) {
		term := v1.PodAffinityTerm{
			TopologyKey:   "zone",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}},
		}
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term},
			},
		}
	}
	s := newState(t)
	want := func(step, want string) {
		t.Helper()
		affinity, _ := s.Nodes().HavePodsWithAffinityList()
		antiAffinity, _ := s.Nodes().HavePodsWithRequiredAntiAffinityList()
		wide, _ := s.Nodes().HavePodsWithRequiredNonHostScopedAntiAffinityList()
		if got := nodeNames(wide); got != want || wide == nil {
			t.Errorf("%s: nodes with wide anti-affinity are %s, want %s", step, got, want)
		}
		if got := nodeNames(affinity); got != want {
			t.Errorf("%s: nodes with affinity are %s, want %s", step, got, want)
		}
		if got := nodeNames(antiAffinity); got != want {
			t.Errorf("%s: nodes with anti-affinity are %s, want %s", step, got, want)
		}
	}
	for _, name := range []string{"c", "b", "a"} {
		s.node(name, 4)
	}
	s.pod(podOf("plain", 1, standsOn("a")))
	want("none", "")
	s.pod(podOf("p", 1, anti, standsOn("c")))
	q := s.pod(podOf("q", 1, anti))
	s.must(s.Assume(q, "b", Waiting, nil))
	want("two, one of them held", "b c")
	s.DeleteNode("c")
	want("a node goes", "b")
	s.node("c", 4)
	want("it comes back", "b c")
	s.must(s.Release(q))
	want("the held pod is released", "c")
	_, err := s.DeletePod("p")
	s.must(err)
	want("the pod is deleted", "")
}

func nodeNames(infos []fwk.NodeInfo) string {
	var names []string
	for _, info := range infos {
		names = append(names, info.Node().Name)
	}
	return strings.Join(names, " ")
}

func TestAClaimIsInUseWhileAPodWithItStandsOnANode(t *testing.T) {
	s := newState(t)
	s.node("a", 4)
	p := s.pod(podOf("p", 1, func(p *v1.Pod) {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	}))
	used := func(step string, want bool) {
		t.Helper()
		if got := s.Nodes().IsPVCUsedByPods("default/data"); got != want {
			t.Errorf("%s: used is %v", step, got)
		}
	}
	used("pending", false)
	s.must(s.Assume(p, "a", Waiting, nil))
	used("held", true)
	if s.Nodes().IsPVCUsedByPods("other/data") {
		t.Error("the claim of that name in another namespace is used")
	}
	s.must(s.Release(p))
	used("released", false)
	s.must(s.Assume(p, "a", Binding, nil))
	_, err := s.DeletePod("p")
	s.must(err)
	used("deleted", false)
}

func (s testState) gang(name string, minimum int32) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	_, err := s.Upsert(eventlog.PodGroups, g)
	s.must(err)
}

func (s testState) xgang(name string, minimum, seconds int32) {
	g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.MinMember, g.Spec.ScheduleTimeoutSeconds = minimum, &seconds
	_, err := s.Upsert(eventlog.XPodGroups, g)
	s.must(err)
}

func TestAGroupIsWhatItsObjectsSay(t *testing.T) {
	s := newState(t)
	want := func(step, want string) {
		t.Helper()
		got := "none"
		if g := s.Gangs().Named("default", "g"); g != nil {
			got = fmt.Sprintf(
				"declared=%v min=%d timeout=%s members=%d",
				g.Declared(),
				g.Min(),
				g.Timeout(),
				len(g.Members()),
			)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", step, got, want)
		}
	}
	want("nothing", "none")
	s.pod(podOf("p", 1, memberOf("g")))
	want("a member", "declared=false min=1 timeout=0s members=1")
	s.xgang("g", 3, 90)
	want("declared by scheduling.x-k8s.io", "declared=true min=3 timeout=1m30s members=1")
	s.gang("g", 2)
	want("by both APIs: the Kubernetes one counts", "declared=true min=2 timeout=0s members=1")
	s.gang("g", 4)
	want("changed", "declared=true min=4 timeout=0s members=1")
	s.Delete(eventlog.PodGroups, "default", "g")
	want("one declaration goes", "declared=true min=3 timeout=1m30s members=1")
	s.Delete(eventlog.XPodGroups, "default", "g")
	want("the other goes", "declared=false min=1 timeout=0s members=1")
	_, err := s.DeletePod("p")
	s.must(err)
	want("the member goes", "none")
	_, err = s.Upsert(
		eventlog.PodGroups,
		&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}},
	)
	s.must(err)
	want("with the basic policy", "declared=true min=1 timeout=0s members=0")
}

func TestLacksComparesTheSmallestNeedsWithAllThatIsFree(t *testing.T) {
	gpus := func(n int64) func(*v1.Node) {
		return func(node *v1.Node) {
			maps.Copy(node.Status.Allocatable, quantities(map[v1.ResourceName]int64{"example.com/gpu": n}))
		}
	}
	wants := func(n int64) func(*v1.Pod) {
		return func(p *v1.Pod) {
			maps.Copy(
				p.Spec.Containers[0].Resources.Requests,
				quantities(map[v1.ResourceName]int64{"example.com/gpu": n}),
			)
		}
	}
	cases := []struct {
		name string
		do   func(s testState)
		want string
	}{
		{
			"enough, however scattered",
			func(s testState) { s.node("a", 2); s.node("b", 2); s.gang("g", 2); s.members(2, 2) },
			"",
		},
		{
			"too little",
			func(s testState) { s.node("a", 2); s.node("b", 1); s.gang("g", 2); s.members(2, 2) },
			"cpu 4000 of 3000",
		},
		{"the smallest members count", func(s testState) { s.node("a", 3); s.gang("g", 2); s.members(9, 1, 2) }, ""},
		{"what is missing counts", func(s testState) {
			s.node("a", 3)
			s.gang("g", 2)
			s.members(3, 3)
			s.must(s.Assume(s.Pods().Get("m0"), "a", Waiting, nil))
		}, "cpu 3000 of 0"},
		{"those that are assigned do not", func(s testState) {
			s.node("a", 3)
			s.gang("g", 1)
			s.members(3, 3)
			s.must(s.Assume(s.Pods().Get("m0"), "a", Binding, nil))
		}, ""},
		{"a node that holds too much has nothing, and takes nothing from others", func(s testState) {
			s.node("a", 1)
			s.pod(podOf("big", 9, standsOn("a")))
			s.node("b", 2)
			s.gang("g", 1)
			s.members(2)
		}, ""},
		{"a node that is gone has nothing", func(s testState) {
			s.node("a", 9)
			s.DeleteNode("a")
			s.node("b", 1)
			s.gang("g", 1)
			s.members(2)
		}, "cpu 2000 of 1000"},
		{"the worst of several", func(s testState) {
			s.node("a", 2, gpus(1))
			s.gang("g", 1)
			s.pod(podOf("m0", 4, memberOf("g"), wants(8)))
		}, "example.com/gpu 8 of 1"},
		{"what nobody offers is left to Filter", func(s testState) {
			s.node("a", 4)
			s.gang("g", 1)
			s.pod(podOf("m0", 4, memberOf("g"), wants(8)))
		}, ""},
		{"also if somebody once did", func(s testState) {
			s.node("a", 4)
			s.node("b", 4, gpus(1))
			s.DeleteNode("b")
			s.gang("g", 1)
			s.pod(podOf("m0", 4, memberOf("g"), wants(8)))
		}, ""},
		{"no room for another pod", func(s testState) {
			s.node(
				"a",
				4,
				func(n *v1.Node) { maps.Copy(n.Status.Allocatable, quantities(map[v1.ResourceName]int64{"pods": 1})) },
			)
			s.gang("g", 2)
			s.members(1, 1)
		}, "pods 2 of 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newState(t)
			c.do(s)
			got := ""
			if short, lacks := s.Lacks(s.Gangs().Named("default", "g")); lacks {
				got = fmt.Sprintf("%s %d of %d", short.Resource, short.Needed, short.Free)
			}
			if got != c.want {
				t.Errorf("lacks %q, want %q", got, c.want)
			}
		})
	}
}

// members adds pods m0, m1 ... to group g.
func (s testState) members(cores ...int64) {
	for i, n := range cores {
		s.pod(podOf(fmt.Sprintf("m%d", i), n, memberOf("g")))
	}
}

// TestFreeEqualsACountOfAllNodes compares the running totals with a count of everything from the start.
func TestFreeEqualsACountOfAllNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		name := func(of string, n int) string { return fmt.Sprintf("%s%d", of, rapid.IntRange(0, n).Draw(t, of)) }
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		pending := func() *Pod {
			if p := s.Pods().Get(types.UID(name("p", 5))); p != nil && p.Stage == Pending {
				return p
			}
			return nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if want := countAll(s); !capacitiesEqual(s.free, want) {
					t.Fatalf("free is %+v, counted anew it is %+v", s.free, want)
				}
			},
			"node": func(t *rapid.T) {
				amounts := map[v1.ResourceName]int64{
					v1.ResourceCPU:    rapid.Int64Range(0, 6).Draw(t, "cpu"),
					v1.ResourcePods:   3,
					v1.ResourceMemory: 1 << 30,
				}
				if n := rapid.Int64Range(0, 3).Draw(t, "gpu"); n > 0 {
					amounts["example.com/gpu"] = n
				}
				n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name("n", 3)}}
				n.Status.Allocatable = quantities(amounts)
				_, err := s.UpsertNode(n)
				must(err)
			},
			"node gone": func(*rapid.T) { s.DeleteNode(name("n", 3)) },
			"pod": func(t *rapid.T) {
				p := podOf(name("p", 5), rapid.Int64Range(0, 4).Draw(t, "cpu"))
				p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0,
					2).Draw(t, "gpu"), resource.DecimalSI)
				if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
					p.Spec.NodeName = name("n", 3)
				}
				_, err := s.UpsertPod(p)
				must(err)
			},
			"pod gone": func(*rapid.T) {
				_, err := s.DeletePod(types.UID(name("p", 5)))
				must(err)
			},
			"assume": func(*rapid.T) {
				if p := pending(); p != nil {
					must(s.Assume(p, name("n", 3), Waiting, nil))
				}
			},
			"release": func(*rapid.T) {
				if p := s.Pods().Get(types.UID(name("p", 5))); p != nil && p.Stage == Waiting {
					must(s.Release(p))
				}
			},
		})
	})
}

func countAll(s *State) Capacity {
	var total Capacity
	// any order: sums
	for name, n := range s.nodes.byName {
		if !n.exists {
			continue
		}
		left := map[v1.ResourceName]int64{}
		allocatable := n.info.Node().Status.Allocatable
		// any order: fills a map
		for resource, q := range allocatable {
			left[resource] = q.Value()
		}
		left[v1.ResourceCPU] = allocatable.Cpu().MilliValue()
		// any order: sums
		for _, p := range s.pods.byUID {
			if p.Node == name {
				requests := p.Object.Spec.Containers[0].Resources.Requests
				gpu := requests["example.com/gpu"]
				left[v1.ResourceCPU] -= requests.Cpu().MilliValue()
				left[v1.ResourcePods]--
				left["example.com/gpu"] -= gpu.Value()
			}
		}
		total.MilliCPU += max(0, left[v1.ResourceCPU])
		total.Memory += left[v1.ResourceMemory]
		total.Pods += max(0, left[v1.ResourcePods])
		if _, offers := allocatable["example.com/gpu"]; offers {
			if total.Scalar == nil {
				total.Scalar = map[v1.ResourceName]int64{}
			}
			total.Scalar["example.com/gpu"] += max(0, left["example.com/gpu"])
		}
	}
	return total
}
