package effect_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// withVolumes is a server with pod a, claim data, volume pv that can be reached from n1, and nodes n1 and n2.
func withVolumes(t testing.TB) *server {
	s := newServer(t)
	s.addPod("a", "u")
	put(s, s.claims, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"}})
	put(s, s.volumes, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "host", Operator: "In", Values: []string{"n1"}}}}}}}}})
	for _, name := range []string{"n1", "n2"} {
		put(s, s.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"host": name}}})
	}
	return s
}

// control is the PersistentVolume controller: after some reads it binds the claim that was given a volume or a node.
func (s *server) control(reads int) {
	s.before = func(request string) {
		if !strings.HasPrefix(request, "GET") || !strings.HasSuffix(request, "/persistentvolumeclaims/data") {
			return
		}
		pv, claim := *s.volumes["pv"], *s.claims["data"]
		if pv.Spec.ClaimRef == nil && claim.Annotations[volume.AnnSelectedNode] == "" {
			return
		}
		if reads--; reads >= 0 {
			return
		}
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "c"}
		put(s, s.volumes, &pv)
		claim.Spec.VolumeName = "pv"
		claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes",
			volume.AnnSelectedNode: claim.Annotations[volume.AnnSelectedNode]}
		put(s, s.claims, &claim)
	}
}

func withClaim(volumeName string) engine.Effect {
	r := bind("a", "u", "n1")
	r.Volumes = []eventlog.VolumeClaim{{Claim: "data", Volume: volumeName}}
	return r
}

func TestAPodIsBoundOnceItsClaimsAre(t *testing.T) {
	for name, request := range map[string]engine.Effect{"bound": withClaim("pv"), "provisioned": withClaim("")} {
		t.Run(name, func(t *testing.T) {
			s := withVolumes(t)
			s.control(3)
			r := run(t, s, effect.Options{})
			defer r.stop()
			// Drain would give up effects that wait for others.
			r.Carry(ready(request))
			<-r.Finished()
			got := r.Take()[0].(*eventlog.BindResult)
			if got.Outcome != eventlog.BindBound || len(s.binds["u"]) != 1 {
				t.Errorf("the result is %v %q, the pod is bound to %v", got.Outcome, got.Message, s.binds["u"])
			}
			last := s.requests[len(s.requests)-1]
			if !strings.HasSuffix(last, "/binding") {
				t.Errorf("the last request is %s", last)
			}
			writes := s.count("PUT", "/pv")
			if name == "provisioned" {
				writes = s.count("PUT", "/data")
				if n := s.claims["data"].Annotations[volume.AnnSelectedNode]; n != "n1" {
					t.Errorf("the selected node is %q", n)
				}
			}
			if writes != 1 {
				t.Errorf("%d writes: %q", writes, s.requests)
			}
		})
	}
}

// A process that starts again finds the writes of the earlier one.
func TestVolumesThatAreWrittenAreNotWrittenAgain(t *testing.T) {
	for _, request := range []engine.Effect{withClaim("pv"), withClaim("")} {
		s := withVolumes(t)
		s.control(0)
		for range 2 {
			r := run(t, s, effect.Options{})
			r.Carry(ready(request))
			<-r.Finished()
			if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
				t.Errorf("the result is %v %q", got.Outcome, got.Message)
			}
			r.stop()
		}
		if n := s.count("PUT", ""); n != 1 || len(s.binds["u"]) != 1 {
			t.Errorf("%d writes: %q", n, s.requests)
		}
	}
}

func TestWhatAVolumeLacksFailsTheBind(t *testing.T) {
	for name, c := range map[string]struct {
		request engine.Effect
		change  func(*server)
		want    string
	}{
		"never bound": {withClaim("pv"), func(*server) {}, "binding volumes: context deadline exceeded"},
		"another claim's": {withClaim("pv"), func(s *server) {
			s.volumes["pv"].Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "other", UID: "o"}
		}, `binding volumes: volume "pv" belongs to claim ns/other`},
		"another volume": {withClaim("pv"), func(s *server) { s.claims["data"].Spec.VolumeName = "x" },
			`binding volumes: claim "data" is bound to volume "x"`},
		"another node's": {withClaim(""), func(s *server) {
			s.claims["data"].Annotations = map[string]string{volume.AnnSelectedNode: "n2"}
		}, `binding volumes: claim "data" is being provisioned for node "n2"`},
		"no claim":  {withClaim("pv"), func(s *server) { delete(s.claims, "data") }, `"data" not found`},
		"no volume": {withClaim("pv"), func(s *server) { delete(s.volumes, "pv") }, `"pv" not found`},
		"provisioning fails": {withClaim(""), func(s *server) {
			s.before = func(string) {
				if claim := *s.claims["data"]; claim.Annotations[volume.AnnSelectedNode] != "" {
					claim.Annotations = map[string]string{"x": "y"}
					put(s, s.claims, &claim)
				}
			}
		}, `binding volumes: provisioning failed for PVC "data"`},
		"reset": {withClaim("pv"), func(s *server) {
			s.before = func(string) {
				if pv := *s.volumes["pv"]; pv.Spec.ClaimRef != nil {
					pv.Spec.ClaimRef = nil
					put(s, s.volumes, &pv)
				}
			}
		}, `binding volumes: ClaimRef got reset for pv "pv"`},
		"out of reach": {withClaim("pv"), func(s *server) {
			s.control(0)
			s.nodes["n1"].Labels = nil
		}, `binding volumes: pv "pv" node affinity doesn't match node "n1": `},
		"refused": {withClaim("pv"), func(s *server) { s.fault = first("PUT", "/pv", fault{code: 403}) },
			"binding volumes: no"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withVolumes(t)
			c.change(s)
			r := run(t, s, effect.Options{})
			defer r.stop()
			r.Carry(ready(c.request))
			<-r.Finished()
			got := r.Take()[0].(*eventlog.BindResult)
			if got.Outcome != eventlog.BindFailed || !strings.Contains(got.Message, c.want) {
				t.Errorf("the result is %v %q, want %q", got.Outcome, got.Message, c.want)
			}
			if n := s.count("POST", "/binding"); n > 0 {
				t.Errorf("the bind was sent %d times", n)
			}
		})
	}
}

func TestFaultsDoNotKeepVolumesFromBeingBound(t *testing.T) {
	for _, on := range []struct{ method, end string }{
		{"GET", "/data"}, {"GET", "/pv"}, {"GET", "/n1"}, {"PUT", "/pv"}} {
		for _, f := range []fault{{code: 409}, {code: 429}, {code: 500}, {code: 500, after: true}, {code: -1},
			{code: -1, after: true}, {code: -2}, {code: -2, after: true}} {
			s := withVolumes(t)
			s.control(2)
			s.fault = times(3, on.method, on.end, f)
			r := run(t, s, effect.Options{})
			r.Carry(ready(withClaim("pv")))
			<-r.Finished()
			if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
				t.Errorf("%v %v: the result is %v %q", on, f, got.Outcome, got.Message)
			}
			r.stop()
		}
	}
}

// The process may know an older version than it wrote: that says nothing.
func TestAStaleVolumeIsWaitedFor(t *testing.T) {
	s := withVolumes(t)
	s.control(0)
	claim, pv := s.claims["data"].DeepCopy(), s.volumes["pv"].DeepCopy()
	asked := 0
	whole := func(res eventlog.Resource, _, _ string) eventlog.Object {
		s.mu.Lock()
		defer s.mu.Unlock()
		if asked++; asked > 9 {
			if res == eventlog.PersistentVolumes {
				return s.volumes["pv"]
			}
			s.before("GET /persistentvolumeclaims/data")
			return s.claims["data"]
		}
		if res == eventlog.PersistentVolumes {
			return pv // without the claim: it was not reset
		}
		return claim
	}
	r := run(t, s, effect.Options{Whole: whole})
	defer r.stop()
	r.Carry(ready(withClaim("pv")))
	<-r.Finished()
	if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
		t.Errorf("the result is %v %q", got.Outcome, got.Message)
	}
	if n := s.count("GET", "/data") + s.count("GET", "/pv"); n != 0 {
		t.Errorf("%d reads of what is known: %q", n, s.requests)
	}
}

// The next process resumes a wait for volumes, and no outcome is unknown.
func TestADrainDoesNotWaitForVolumes(t *testing.T) {
	s := withVolumes(t)
	clock := &heldClock{wait: make(chan struct{}, 1)}
	e := effect.New(effect.Options{Client: s.client(), Clock: clock})
	go e.Run(t.Context())
	e.Carry(ready(withClaim("pv")))
	<-clock.wait
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := e.Take(); got != nil {
		t.Errorf("results %v", got)
	}
}

func TestResourceClaimsAreReservedBeforeTheBind(t *testing.T) {
	allocated := func() *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "g"},
			Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{},
				ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "b", UID: "v"}}}}
	}
	for _, f := range []fault{{}, {code: 409}, {code: 500, after: true}, {code: -2}, {code: -1, after: true}} {
		s := newServer(t)
		s.addPod("a", "u")
		put(s, s.devices, allocated())
		s.fault = first("PUT", "/resourceclaims/gpu/status", f)
		r := run(t, s, effect.Options{})
		request := bind("a", "u", "n1")
		request.Claims = []string{"gpu"}
		got := r.results(t, request)[0].(*eventlog.BindResult)
		want := append(allocated().Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "a", UID: "u"})
		if reserved := s.devices["gpu"].Status.ReservedFor; got.Outcome != eventlog.BindBound ||
			!slices.Equal(reserved, want) {
			t.Errorf("%v: the result is %v %q, reserved for %v", f, got.Outcome, got.Message, reserved)
		}
		r.stop()
	}
	for want, change := range map[string]func(*resourcev1.ResourceClaim){
		"claim ns/gpu got deallocated elsewhere in the meantime": func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = nil
		},
		"claim ns/gpu got deleted in the meantime": func(c *resourcev1.ResourceClaim) {
			c.DeletionTimestamp = &metav1.Time{}
			c.DeletionTimestamp.Time = metav1.Now().Time
		},
	} {
		s := newServer(t)
		s.addPod("a", "u")
		claim := allocated()
		change(claim)
		put(s, s.devices, claim)
		r := run(t, s, effect.Options{})
		request := bind("a", "u", "n1")
		request.Claims = []string{"gpu"}
		got := r.results(t, request)[0].(*eventlog.BindResult)
		if got.Outcome != eventlog.BindFailed || !strings.Contains(got.Message, want) {
			t.Errorf("the result is %v %q, want %q", got.Outcome, got.Message, want)
		}
		r.stop()
	}
}
