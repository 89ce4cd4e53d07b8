package cluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// In the states of logs that have no PodGroup of Volcano and of KAI nothing names them, as before there were any. With
// one, a state is restored from its form, and without it again the form is the one before.
func TestStatesWithoutPodGroupsOfOtherSchedulersAreAsBefore(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "g", UID: "u"}
	objects := map[eventlog.Resource]eventlog.Object{
		eventlog.VolcanoPodGroups: &volcano.PodGroup{ObjectMeta: meta, Spec: volcano.PodGroupSpec{MinMember: 3}},
		eventlog.KAIPodGroups:     &kai.PodGroup{ObjectMeta: meta, Spec: kai.PodGroupSpec{MinMember: new(int32(3))}},
	}
	form := func(s *State) []byte {
		t.Helper()
		b, err := s.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := newState(t)
	s.pod(podOf("p", 1, memberOf("g")))
	before := form(s.State)
	for _, res := range []eventlog.Resource{eventlog.VolcanoPodGroups, eventlog.KAIPodGroups} {
		if bytes.Contains(before, []byte(res)) {
			t.Errorf("the state names %s, of which there is none", res)
		}
		if _, err := s.Upsert(res, objects[res]); err != nil {
			t.Fatal(err)
		}
		with := form(s.State)
		again := New()
		if err := again.Restore(canonical.NewReader(with)); err != nil {
			t.Fatalf("%s: %v", res, err)
		}
		if g := again.Gangs().Named("default", "g"); g == nil || g.Min() != 3 || !bytes.Equal(form(again), with) {
			t.Errorf("%s: restored is another state, with the group %v", res, g)
		}
		s.Delete(res, "default", "g")
		if !bytes.Equal(form(s.State), before) {
			t.Errorf("%s: the state is not as before it came", res)
		}
	}
}

// What Volcano's controllers write into minResources for a ResourceQuota is no amount that nodes offer.
func TestQuotaNamesAreNoResourcesOfNodes(t *testing.T) {
	list := v1.ResourceList{}
	for _, name := range []v1.ResourceName{"cpu", "pods", "requests.cpu", "limits.memory", "count/pods",
		"requests.nvidia.com/gpu", "nvidia.com/gpu"} {
		list[name] = resource.MustParse("1")
	}
	var got []string
	for name := range WithoutQuotaNames(list) {
		got = append(got, string(name))
	}
	slices.Sort(got)
	if want := "cpu nvidia.com/gpu pods"; strings.Join(got, " ") != want {
		t.Errorf("left are %v, want %s", got, want)
	}
}

// A member that changes its part changes whether the parts are kept.
func TestPartsFollowTheLabelsOfMembers(t *testing.T) {
	s := newState(t)
	if _, err := s.Upsert(eventlog.VolcanoPodGroups, &volcano.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"},
		Spec:       volcano.PodGroupSpec{MinMember: 2, MinTaskMember: map[string]int32{"ps": 1, "worker": 1}},
	}); err != nil {
		t.Fatal(err)
	}
	member := func(name, task string) {
		p := podOf(name, 1)
		p.Annotations = map[string]string{volcano.PodGroupAnnotation: "g"}
		p.Labels = map[string]string{volcano.TaskLabel: task}
		s.pod(p)
	}
	member("a", "worker")
	g := s.Gangs().Named("default", "g")
	if why := g.Refusal(); why != "" {
		t.Errorf("with one member: %s", why)
	}
	member("b", "worker")
	if why := g.Refusal(); !strings.Contains(why, `spec.minTaskMember["ps"] 1`) {
		t.Errorf("without a ps: %q", why)
	}
	member("b", "ps")
	if why := g.Refusal(); why != "" {
		t.Errorf("with a ps: %s", why)
	}
}
