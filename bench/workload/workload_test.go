package workload

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

func drawSpec(t *rapid.T) Spec {
	s := Spec{
		Nodes: rapid.IntRange(Zones, 300).Draw(t, "nodes"), Pods: rapid.IntRange(1, 300).Draw(t, "pods"),
		Spread: rapid.Bool().Draw(t, "spread"), Gang: rapid.IntRange(0, 40).Draw(t, "gang"),
	}
	s.Shapes = rapid.OneOf(rapid.IntRange(1, 50), rapid.Just(s.Pods)).Draw(t, "shapes")
	s.Gang = min(s.Gang, s.Room())
	if s.Gang > 0 && rapid.Bool().Draw(t, "sizes") {
		s.GangMost = min(s.Room(), s.Gang*rapid.IntRange(1, 9).Draw(t, "most")+rapid.IntRange(0, 5).Draw(t, "more"))
	}
	return s
}

func request(p *corev1.Pod) string {
	r := p.Spec.Containers[0].Resources.Requests
	return fmt.Sprint(r.Cpu().MilliValue(), " ", r.Memory().Value())
}

func TestAWorkloadIsTheSameEachTimeAndHasAsManyShapesAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		shapes, names := map[string]bool{}, map[string]bool{}
		for i := range s.Pods {
			p := s.Pod(i)
			if !reflect.DeepEqual(p, s.Pod(i)) {
				t.Fatalf("pod %d is not the same twice", i)
			}
			if n, err := Index(p.UID); err != nil || n != i {
				t.Fatalf("the number of %s is %d, %v", p.UID, n, err)
			}
			shapes[request(p)], names[p.Name] = true, true
		}
		want := min(s.Shapes, s.Pods)
		if s.Gang > 0 && s.Shapes < s.Pods {
			want = min(s.Shapes, s.Groups())
		}
		if len(shapes) != want || len(names) != s.Pods {
			t.Fatalf("%s: %d shapes, want %d; %d names", s, len(shapes), want, len(names))
		}
	})
}

func TestEveryMemberIsInOneGangWhoseMinimumIsAllOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		members := map[string]int{}
		for i := range s.Pods {
			if g := s.Pod(i).Spec.SchedulingGroup; g != nil {
				members[*g.PodGroupName]++
			}
		}
		if len(members) != s.Groups() {
			t.Fatalf("%d groups, want %d", len(members), s.Groups())
		}
		next := 0
		for g := range s.Groups() {
			first, end := s.Members(g)
			group := s.Group(g)
			if b, ok := s.Begins(first); !ok || b != g {
				t.Fatalf("pod %d begins gang %d, %v; want %d", first, b, ok, g)
			}
			if least := int(group.Spec.SchedulingPolicy.Gang.MinCount); first != next || end <= first ||
				members[group.Name] != end-first || least != end-first {
				t.Fatalf("gang %s has pods %d to %d, %d members and the minimum %d", group.Name, first, end,
					members[group.Name], least)
			}
			next = end
		}
		if s.Gang > 0 && next != s.Pods {
			t.Fatalf("the gangs have %d of %d pods", next, s.Pods)
		}
	})
}

func TestEightPodsOfAnyShapeFitANode(t *testing.T) {
	s := Spec{Nodes: 1, Pods: MaxPods, Shapes: MaxPods}
	for i := 0; i < 1_100_000; i += 7 {
		milliCPU, memory := s.shape(i)
		if milliCPU < 1 || memory < 1 || NodeGPUs*milliCPU > 1000*NodeCPU || NodeGPUs*memory > NodeMemory {
			t.Fatalf("shape %d: %d mCPU, %d bytes", i, milliCPU, memory)
		}
	}
}

func TestShapesAreDifferentUpToAMillion(t *testing.T) {
	s := Spec{Nodes: 1, Pods: MaxPods, Shapes: MaxPods}
	all := make([]int64, 1_000_000)
	for i := range all {
		milliCPU, memory := s.shape(i)
		all[i] = milliCPU<<40 | memory>>10
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 1_000_000 {
		t.Errorf("%d are different", n)
	}
}

func TestNodesHaveNamesInTheirOrderAndStandInAllZones(t *testing.T) {
	s, zones := Spec{Nodes: 1200}, map[string]int{}
	for i := range s.Nodes {
		n := s.Node(i)
		if k, err := NodeIndex(n.Name); err != nil || k != i {
			t.Fatalf("the number of %s is %d, %v", n.Name, k, err)
		}
		if i > 0 && n.Name <= NodeName(i-1) {
			t.Fatalf("%s comes behind %s", n.Name, NodeName(i-1))
		}
		zones[n.Labels[corev1.LabelTopologyZone]]++
	}
	if len(zones) != Zones || zones[zone(0)] != s.Nodes/Zones {
		t.Errorf("zones: %v", zones)
	}
}

func TestWhatIsNoWorkloadIsRefused(t *testing.T) {
	good := Spec{Nodes: 1, Pods: 1, Shapes: 1}
	for name, change := range map[string]func(*Spec){
		"no nodes": func(s *Spec) { s.Nodes = 0 }, "too many nodes": func(s *Spec) { s.Nodes = MaxNodes + 1 },
		"no pods": func(s *Spec) { s.Pods = 0 }, "too many pods": func(s *Spec) { s.Pods = MaxPods + 1 },
		"no shapes":                    func(s *Spec) { s.Shapes = 0 },
		"a negative gang":              func(s *Spec) { s.Gang = -1 },
		"sizes without a least":        func(s *Spec) { s.GangMost = 2 },
		"sizes upside down":            func(s *Spec) { s.Gang, s.GangMost = 2, 1 },
		"a large gang that never fits": func(s *Spec) { s.Gang, s.GangMost = 2, 9 },
		"fewer nodes than zones":       func(s *Spec) { s.Nodes, s.Spread = 2, true },
		"a gang that never fits":       func(s *Spec) { s.Gang = 9 },
	} {
		bad := good
		if change(&bad); bad.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, uid := range []string{"", "x", "00000002-0000-4000-8000-00000000000x"} {
		if _, err := Index(types.UID(uid)); err == nil {
			t.Errorf("%q has a number", uid)
		}
	}
}

// TestTurnsLeaveRoomForTheNextBatch lets pods come and go by their turns, and expects that all of them always fit.
func TestTurnsLeaveRoomForTheNextBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		s.DRA = rapid.Bool().Draw(t, "dra")
		turns, err := s.Turns(rapid.IntRange(0, 400).Draw(t, "stay"), rapid.IntRange(1, 100).Draw(t, "batch"), 0)
		if err != nil {
			return
		}
		ended := 0
		for next := 0; next < s.Pods; {
			until := s.Until(turns, next)
			if until <= next {
				t.Fatalf("%s: nothing comes with pod %d", s, next)
			}
			if _, ok := s.Begins(until); s.Gang > 0 && !ok && until != s.Pods {
				t.Fatalf("%s: a batch ends at pod %d, within a gang", s, until)
			}
			for until-ended > turns.Stay && ended < next {
				ended = s.Together(ended)
			}
			if until-ended > s.Room() {
				t.Fatalf("%s: %d pods are there, and there is room for %d", s, until-ended, s.Room())
			}
			next = until
		}
	})
}

func TestADeviceIsTakenByOnePodAtATime(t *testing.T) {
	s := Spec{Nodes: 2, Pods: 4, Shapes: 1, DRA: true}
	device := func(node, name string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{
				Driver: s.Slice(0).Spec.Driver, Pool: node, Device: name,
			}}}}
	}
	u, first := InUse{}, device(NodeName(0), "gpu-0")
	for name, bad := range map[string]*resourcev1.AllocationResult{
		"none": nil, "of another node": device(NodeName(1), "gpu-0"), "no such": device(NodeName(0), "gpu-8"),
	} {
		if u.Take("a", NodeName(0), bad) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := u.Take("a", NodeName(0), first); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(u.Take("b", NodeName(0), first), ErrInUse) || u.Leave("b", first) == nil {
		t.Error("another pod takes, or leaves, the device of the first")
	}
	if err := errors.Join(u.Leave("a", first), u.Take("b", NodeName(0), first)); err != nil {
		t.Error(err)
	}
}

func TestGangSizesAreSetByAFlag(t *testing.T) {
	for text, want := range map[string]string{
		"0": "[0] 0", "16": "[16] 16", "8-64": "[8 16 32 64] 120", "8-100": "[8 16 32 64 100] 220", "5-5": "[5] 5",
		"3-4": "[3 4] 7",
		"":    "", "-1": "", "0-8": "", "8-": "", "-8": "", "9-8": "", "8-16-32": "", "x": "", "8- 16": "",
	} {
		var s Spec
		err := s.GangFlag().Set(text)
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err != nil {
			continue
		}
		if sizes, sum := s.gangCycle(); fmt.Sprint(sizes, sum) != want || s.GangFlag().String() != text {
			t.Errorf("%q: %v %d, %s; want %s", text, sizes, sum, s.GangFlag(), want)
		}
	}
}

// TestRunnersFillEveryNodeAndTheirGangsDivideThoseThatCome checks the pods that run before gangs preempt.
func TestRunnersFillEveryNodeAndTheirGangsDivideThoseThatCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Nodes: rapid.IntRange(1, 40).Draw(t, "nodes"), Shapes: 1, Preempt: true}
		s.Gang = rapid.IntRange(1, s.Room()).Draw(t, "gang")
		s.Pods = s.Gang * rapid.IntRange(1, s.Room()/s.Gang).Draw(t, "gangs")
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		members, onNode, priorities := map[string][]*corev1.Pod{}, map[string]int{}, map[int32]bool{}
		for i := range s.Runners() {
			p := s.Runner(i)
			if n, ok := RunnerIndex(p.UID); !ok || n != i {
				t.Fatalf("the number of %s is %d, %v", p.UID, n, ok)
			}
			onNode[p.Spec.NodeName]++
			priorities[*p.Spec.Priority] = true
			if g := p.Spec.SchedulingGroup; g != nil {
				members[*g.PodGroupName] = append(members[*g.PodGroupName], p)
			}
			if *p.Spec.Priority >= *s.Pod(0).Spec.Priority || *p.Spec.Priority >= *s.Group(0).Spec.Priority {
				t.Fatalf("%s is not below the pods that come", p.Name)
			}
		}
		if len(onNode) != s.Nodes || len(members) != s.RunnerGroups() || s.Nodes > 8 && len(priorities) < 2 {
			t.Fatalf("%d nodes, %d gangs, %d priorities", len(onNode), len(members), len(priorities))
		}
		for g := range s.RunnerGroups() {
			group := s.RunnerGroup(g)
			pods := members[group.Name]
			if n := int(group.Spec.SchedulingPolicy.Gang.MinCount); len(pods) != n || s.Gang%n != 0 {
				t.Fatalf("%s has %d pods and the minimum %d, beside gangs of %d", group.Name, len(pods), n, s.Gang)
			}
			for i, p := range pods {
				if *p.Spec.Priority != *group.Spec.Priority || i > 0 && p.Spec.NodeName == pods[i-1].Spec.NodeName {
					t.Fatalf("%s of %s has another priority, or shares its node", p.Name, group.Name)
				}
			}
		}
		if _, ok := RunnerIndex(s.Pod(0).UID); ok {
			t.Fatal("a pod that comes is a runner")
		}
	})
}
