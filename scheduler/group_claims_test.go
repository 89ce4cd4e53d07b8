package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

const groupClaimsOn = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {GenericWorkload: true, DRAWorkloadResourceClaims: true}
`

// podGroup logs a PodGroup that has the claim; with a minimum of 0 its pods are placed one by one.
func (s *sharing) podGroup(name string, minimum int32, claim string) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if minimum > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	} else {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	s.apply(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: g})
}

// member logs a pod of a group that has the claim.
func (s *sharing) member(name, group, claim, cpu string) {
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: memberOf(name, group, claim, cpu)})
}

// homeless logs one that finds no node, and not for want of room.
func (s *sharing) homeless(name, group, claim string) {
	pod := memberOf(name, group, claim, "1m")
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
}

func memberOf(name, group, claim, cpu string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	pod.Spec = v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

// decided applies what is decided, and returns the last Decision on each pod.
func (s *sharing) decided() map[string]eventlog.Decision {
	s.t.Helper()
	all := map[string]eventlog.Decision{}
	for {
		d, ok := s.m.Decide(nil)
		if !ok {
			return all
		}
		s.apply(&d)
		all[d.Name] = d
	}
}

func (s *sharing) restore() {
	s.t.Helper()
	state, err := s.m.AppendState(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.m, err = scheduler.Restore(plugins.NewRegistry(), state); err != nil {
		s.t.Fatal(err)
	}
}

func newGroupSharing(t *testing.T) *sharing {
	s := newSharing(t)
	s.apply(&eventlog.EpochStarted{ID: "f", Version: "v", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: encodedConfig(t, groupClaimsOn)})
	return s
}

// A claim that is the PodGroup's has it as one user, however many pods it has. The API server takes 256 users.
func TestAPodGroupIsOneUserOfItsClaim(t *testing.T) {
	s := newGroupSharing(t)
	pods := make([]string, resourcev1.ResourceClaimReservedForMaxSize-1)
	for i := range pods {
		pods[i] = fmt.Sprintf("p%d", i)
	}
	s.claim(pods...)
	s.podGroup("g", 300, "shared")
	for i := range 300 {
		s.member(fmt.Sprintf("g%d", i), "g", "shared", "1m")
	}
	got := s.decided()
	for i := range 300 {
		if d := got[fmt.Sprintf("g%d", i)]; d.Node != "n1" {
			t.Fatalf("member %d: %v %+v", i, d.Outcome, d.Rejections)
		}
	}
	refused := func(name string) {
		t.Helper()
		const why = `resourceclaim "shared" has 256 users, and can have no more than 256`
		d := s.decide(name)
		if d.Outcome != eventlog.Unschedulable || len(d.Rejections) != 1 || d.Rejections[0].Reason != why {
			t.Fatalf("pod %s: %v %+v", name, d.Outcome, d.Rejections)
		}
	}
	refused("more")
	s.restore()
	refused("restored")
	s.podGroup("other", 1, "shared")
	s.member("o", "other", "shared", "1m")
	if d := s.decided()["o"]; d.Outcome != eventlog.Unschedulable {
		t.Fatalf("a pod of another PodGroup, which would be the 257th user: %v on %s", d.Outcome, d.Node)
	}
}

// reserve logs the claim as allocated and reserved for these PodGroups and pods.
func (s *sharing) reserve(groups, pods []string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "shared", UID: "c"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "gpu"}}}}
	for _, name := range groups {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: name, UID: types.UID(name)})
	}
	for _, name := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)})
	}
	s.apply(&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
}

// An attempt that fails has the claims of a PodGroup given back if no pod of it has a node. The request ends when the
// log has the claim without devices, when a pod has a node, and when the PodGroup is gone or another one.
func TestClaimsOfAPodGroupWithoutNodesAreGivenBack(t *testing.T) {
	gone := func(s *sharing) {
		s.apply(&eventlog.Deleted{Resource: eventlog.PodGroups, Namespace: "ns", Name: "g", UID: "g"})
	}
	for name, ends := range map[string]func(s *sharing){
		"given back": func(s *sharing) { s.reserve(nil, []string{"x"}) },
		"claim gone": func(s *sharing) {
			s.apply(&eventlog.Deleted{Resource: eventlog.ResourceClaims, Namespace: "ns", Name: "shared", UID: "c"})
		},
		"group gone": gone,
		"bound": func(s *sharing) {
			s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: boundMember()})
		},
		"other claims": func(s *sharing) { s.podGroup("g", 2, "another") },
		"gate off": func(s *sharing) {
			s.apply(&eventlog.EpochStarted{ID: "off", Version: "v", Format: eventlog.FormatVersion,
				Behaviour: scheduler.Behaviour, Config: defaultConfig(s.t)})
		},
		"nothing": nil,
	} {
		s := newGroupSharing(t)
		s.reserve([]string{"g"}, nil)
		s.podGroup("g", 2, "shared")
		s.member("a", "g", "shared", "5")
		s.decided()
		if len(s.m.Effects()) > 0 {
			t.Fatalf("%s: before an attempt: %+v", name, s.m.Effects())
		}
		s.member("b", "g", "shared", "5")
		if d := s.decided(); d["a"].Outcome == eventlog.Scheduled || d["b"].Outcome == eventlog.Scheduled {
			t.Fatalf("%s: %+v", name, d)
		}
		s.restore()
		effects := s.m.Effects()
		if len(effects) != 1 || effects[0].Kind != scheduler.GiveBack || effects[0].Name != "g" ||
			effects[0].UID != "g" || len(effects[0].Devices) != 1 ||
			effects[0].Devices[0] != (eventlog.DeviceClaim{Claim: "shared", UID: "c"}) {
			t.Fatalf("%s: the effects are %+v", name, effects)
		}
		if ends == nil {
			s.apply(&eventlog.Tick{})
			if len(s.m.Effects()) != 1 {
				t.Errorf("it has ended by itself")
			}
			continue
		}
		if ends(s); len(s.m.Effects()) > 0 {
			t.Errorf("%s: it stays: %+v", name, s.m.Effects())
		}
		s.restore()
	}
}

func boundMember() *v1.Pod {
	group := "g"
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c-pod"}}
	pod.Spec = v1.PodSpec{SchedulerName: "default-scheduler", NodeName: "n1", Containers: []v1.Container{{Name: "c"}}}
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

// A claim of a PodGroup that another pod uses is not given back before the claim says so: its devices would come free
// while that pod is being bound.
func TestAClaimOfAPodGroupThatAnotherPodUsesStays(t *testing.T) {
	s := newGroupSharing(t)
	s.reserve([]string{"g"}, nil)
	s.podGroup("g", 2, "shared")
	if d := s.decide("x"); d.Outcome != eventlog.Scheduled {
		t.Fatalf("pod x: %+v", d)
	}
	gives := func() bool {
		return slices.ContainsFunc(s.m.Effects(), func(e scheduler.Effect) bool { return e.Kind == scheduler.GiveBack })
	}
	s.homeless("a", "g", "shared")
	s.homeless("b", "g", "shared")
	if d := s.decided(); len(d) == 0 || d["a"].Outcome == eventlog.Scheduled || gives() {
		t.Fatalf("before it is reserved for pod x: %v, the effects are %+v", d["a"].Outcome, s.m.Effects())
	}
	s.reserve([]string{"g"}, []string{"x"})
	s.later = time.Hour
	s.homeless("c", "g", "shared")
	if s.decided(); !gives() {
		t.Errorf("when it is reserved for pod x: the effects are %+v", s.m.Effects())
	}
}

// While a pod of it has a node, the claims are in use: an attempt on another pod that fails changes nothing.
func TestClaimsOfAPodGroupWithANodeStay(t *testing.T) {
	s := newGroupSharing(t)
	s.reserve([]string{"g"}, nil)
	s.podGroup("g", 1, "shared")
	s.member("a", "g", "shared", "5")
	if d := s.decided()["a"]; d.Outcome != eventlog.Scheduled {
		t.Fatalf("pod a: %+v", d)
	}
	s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindBound, Decision: s.m.AskedBy("a",
		scheduler.Bind)})
	s.member("b", "g", "shared", "5")
	if d := s.decided()["b"]; d.Outcome != eventlog.Unschedulable || len(s.m.Effects()) > 0 {
		t.Fatalf("pod b: %v, the effects are %+v", d.Outcome, s.m.Effects())
	}
}
