package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// says makes a pod ml/NAME with labels and annotations, each as key=value.
func says(name string, labels, annotations []string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	pairs := func(list []string) map[string]string {
		m := map[string]string{}
		for _, pair := range list {
			k, v, _ := strings.Cut(pair, "=")
			m[k] = v
		}
		return m
	}
	p.Labels, p.Annotations = pairs(labels), pairs(annotations)
	return p
}

func TestAPodNamesItsGroupInTheOrderOfPrecedence(t *testing.T) {
	labels := []string{xscheduling.PodGroupLabel + "=x", sigsNameLabel + "=s", kueueNameLabel + "=k"}
	annotations := []string{koordinatorName + "=o", volcano.PodGroupAnnotation + "=v"}
	field := says("p", labels, annotations)
	field.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new(string)}
	*field.Spec.SchedulingGroup.PodGroupName = "f"
	for _, c := range []struct {
		pod         *v1.Pod
		want, fault string
	}{
		{field, "f", `names two pod groups: "f" by field spec.schedulingGroup.podGroupName, "x" by label scheduling.x-k8s.io/pod-group`},
		{says("p", labels, annotations), "x", `names two pod groups: "x" by label scheduling.x-k8s.io/pod-group, "o" by annotation gang.scheduling.koordinator.sh/name`},
		{says("p", labels[1:], annotations), "o", `names two pod groups: "o" by annotation gang.scheduling.koordinator.sh/name, "s" by label pod-group.scheduling.sigs.k8s.io`},
		{says("p", labels[1:], annotations[1:]), "s", `names two pod groups: "s" by label pod-group.scheduling.sigs.k8s.io, "k" by label kueue.x-k8s.io/pod-group-name`},
		{says("p", labels[2:], annotations[1:]), "k", `names two pod groups: "k" by label kueue.x-k8s.io/pod-group-name, "v" by annotation scheduling.k8s.io/group-name`},
		{says("p", nil, annotations[1:]), "v", ""},
		{says("p", []string{kueueNameLabel + "=v"}, annotations[1:]), "v", ""},
		{says("p", []string{kueueNameLabel + "="}, nil), "", ""},
	} {
		name, ok := GroupName(c.pod)
		if name.Name != c.want || ok != (c.want != "") || name.Namespace != "ml" {
			t.Errorf("%v %v: named %v, %v; want %q", c.pod.Labels, c.pod.Annotations, name, ok, c.want)
		}
		if got := namingFault(c.pod); got != c.fault {
			t.Errorf("%v %v: fault is %q, want %q", c.pod.Labels, c.pod.Annotations, got, c.fault)
		}
	}
}

func TestTermsAreReadOfAnnotations(t *testing.T) {
	const k = "gang.scheduling.koordinator.sh/"
	long := strings.Repeat("9", 500)
	for _, c := range []struct {
		name        string
		annotations []string
		want        terms
		fault       string
	}{
		{"nothing", nil, terms{}, ""},
		{"empty values", []string{koordinatorMin + "=", kueueTotal + "=", volcanoMin + "="}, terms{}, ""},
		{"Koordinator's defaults", []string{koordinatorMin + "=3"}, terms{by: koordinatorMin, min: 3, total: 3,
			policy: gang.OnceSatisfied}, ""},
		{"all of Koordinator", []string{koordinatorMin + "=3", koordinatorTotal + "=5", koordinatorWaitingTime +
			"=1h30m", koordinatorMode + "=NonStrict",
			koordinatorMatchPolicy + "=only-waiting", koordinatorGroups + `=["z/g","ml/g","a/b"]`},
			terms{koordinatorMin, 3, 5, 90 * time.Minute, NonStrict, gang.OnlyWaiting, "a/b,ml/g,z/g", false, "", ""},
			""},
		{"defaults written out", []string{koordinatorMin + "=3", koordinatorTotal + "=0", koordinatorMode + "=Strict",
			koordinatorMatchPolicy + "=once-satisfied", koordinatorGroups + "=[]"},
			terms{by: koordinatorMin, min: 3, total: 3, policy: gang.OnceSatisfied}, ""},
		{"a group without itself", []string{koordinatorMin + "=1", koordinatorMatchPolicy + "=waiting-and-running", koordinatorGroups + `=["ml/h"]`},
			terms{by: koordinatorMin, min: 1, total: 1, together: "ml/g,ml/h"}, ""},
		{"a minimum above the total is the group's matter", []string{koordinatorMin + "=3", koordinatorTotal + "=2"},
			terms{by: koordinatorMin, min: 3, total: 2, policy: gang.OnceSatisfied}, ""},
		{"Koordinator without a minimum says nothing", []string{koordinatorMode + "=Lax"}, terms{}, ""},
		{"Kueue", []string{kueueTotal + "=4"}, terms{by: kueueTotal, min: 4, total: 4, policy: gang.OnceSatisfied}, ""},
		{"Volcano", []string{volcanoMin + "=4"}, terms{by: volcanoMin, min: 4}, ""},
		{"two that agree", []string{volcanoMin + "=4", kueueTotal + "=4"}, terms{by: kueueTotal, min: 4, total: 4,
			policy: gang.OnceSatisfied}, ""},
		{"two that do not", []string{volcanoMin + "=4", koordinatorMin + "=5"}, terms{},
			"has two minimums: annotation gang.scheduling.koordinator.sh/min-available 5, annotation " +
				"scheduling.volcano.sh/group-min-member 4"},
		{"no number", []string{koordinatorMin + "=3 "}, terms{}, `has annotation ` + k + `min-available "3 ": want a number from 1 to 2147483647`},
		{"none at all", []string{volcanoMin + "=0"}, terms{}, `has annotation scheduling.volcano.sh/group-min-member "0": want a number from 1 to 2147483647`},
		{"more than there can be", []string{kueueTotal + "=2147483648"}, terms{}, `has annotation kueue.x-k8s.io/pod-group-total-count "2147483648": want a number from 1 to 2147483647`},
		{"an endless number", []string{kueueTotal + "=" + long}, terms{}, `has annotation kueue.x-k8s.io/pod-group-total-count "` + long[:80] + `…": want a number from 1 to 2147483647`},
		{"a negative total", []string{koordinatorMin + "=3", koordinatorTotal + "=-1"}, terms{}, `has annotation ` + k + `total-number "-1": want a number from 1 to 2147483647`},
		{"a wait without unit", []string{koordinatorMin + "=3", koordinatorWaitingTime + "=600"}, terms{}, `has annotation ` + k + `waiting-time "600": want a duration above 0, such as 600s`},
		{"no wait", []string{koordinatorMin + "=3", koordinatorWaitingTime + "=0s"}, terms{}, `has annotation ` + k + `waiting-time "0s": want a duration above 0, such as 600s`},
		{"an unknown mode", []string{koordinatorMin + "=3", koordinatorMode + "=strict"}, terms{}, `has annotation ` + k + `mode "strict": want Strict or NonStrict`},
		{"an unknown policy", []string{koordinatorMin + "=3", koordinatorMatchPolicy + "=never"}, terms{},
			`has annotation ` + k + `match-policy "never": want only-waiting, waiting-and-running or once-satisfied`},
		{"a name without namespace", []string{koordinatorMin + "=3", koordinatorGroups + `=["h"]`}, terms{},
			`has annotation ` + k + `groups "[\"h\"]": want a JSON list such as ["ns/a","ns/b"]`},
		{"two namespaces", []string{koordinatorMin + "=3", koordinatorGroups + `=["a/b/c"]`}, terms{},
			`has annotation ` + k + `groups "[\"a/b/c\"]": want a JSON list such as ["ns/a","ns/b"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, fault := termsOf(says("p", nil, c.annotations), types.NamespacedName{Namespace: "ml", Name: "g"})
			if got != c.want || fault != c.fault {
				t.Errorf("got %+v, %q\nwant %+v, %q", got, fault, c.want, c.fault)
			}
		})
	}
}

func TestOwnAnnotationsAreRead(t *testing.T) {
	const keys = ": want a list of different label keys such as topology.kubernetes.io/zone,example.com/rack"
	for _, c := range []struct {
		name        string
		annotations []string
		want        own
	}{
		{"nothing", nil, own{}},
		{"empty values", []string{belowMinimum + "=", topologyRequired + "=", topologyPreferred + "="}, own{}},
		{"topology", []string{topologyRequired + "=example.com/zone", topologyPreferred + "=example.com/rack, nvlink"},
			own{required: "example.com/zone", preferred: "example.com/rack,nvlink"}},
		{"topology that is no label", []string{topologyRequired + "=a,,b"}, own{fault: `has annotation rollcall.dev/topology-required "a,,b"` + keys}},
		{"topology named twice", []string{topologyPreferred + "=a,a"}, own{fault: `has annotation rollcall.dev/topology-preferred "a,a"` + keys}},
		{"the rest is to be evicted", []string{belowMinimum + "=Evict"}, own{below: "Evict"}},
		{"the rest is to be kept", []string{belowMinimum + "=Keep"}, own{below: "Keep"}},
		{"the rest is to be anything else", []string{belowMinimum + "=evict", topologyRequired + "=a"},
			own{fault: `has annotation rollcall.dev/below-minimum "evict": want Keep or Evict`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ownOf(says("p", nil, c.annotations).Annotations); got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("3", "5", "10s", "Strict", `["a/b"]`, "once-satisfied", "4", "4")
	f.Add("-0", "0x3", "1e9h", "\x00", `[null]`, "", "", "08")
	gang := types.NamespacedName{Namespace: "ml", Name: "g"}
	f.Fuzz(func(t *testing.T, minimum, total, wait, mode, groups, policy, count, volcano string) {
		p := says("p", nil, nil)
		p.Annotations = map[string]string{
			koordinatorMin:         minimum,
			koordinatorTotal:       total,
			koordinatorWaitingTime: wait,
			koordinatorMode:        mode,
			koordinatorGroups:      groups,
			koordinatorMatchPolicy: policy,
			kueueTotal:             count,
			volcanoMin:             volcano,
		}
		got, fault := termsOf(p, gang)
		switch {
		case fault != "" && got != terms{}:
			t.Errorf("terms %+v with the fault %q", got, fault)
		case fault == "" && got != terms{} && (got.min < 1 || got.total < 0 || got.timeout < 0):
			t.Errorf("terms %+v", got)
		}
		together := gangsNamed(got.together)
		if got.together != "" && (!slices.Contains(together, gang) || len(together) < 2) {
			t.Errorf("together %v", together)
		}
	})
}

func TestAPodGroupSaysMoreByAnnotations(t *testing.T) {
	s := New()
	g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g", Annotations: map[string]string{
		koordinatorTotal:       "5",
		koordinatorMode:        "NonStrict",
		koordinatorGroups:      `["ml/h"]`,
		koordinatorMatchPolicy: "only-waiting",
	}}}
	g.Spec.MinMember = 3
	if _, err := s.Upsert(eventlog.XPodGroups, g); err != nil {
		t.Fatal(err)
	}
	got := s.Gangs().Named("ml", "g")
	want := []types.NamespacedName{{Namespace: "ml", Name: "g"}, {Namespace: "ml", Name: "h"}}
	if got.Min() != 3 || got.Total() != 5 || got.Mode() != NonStrict || got.MatchPolicy() != gang.OnlyWaiting ||
		!slices.Equal(got.Composite().named, want) ||
		got.Refusal() != "" {
		t.Errorf(
			"min %d of %d, %s, %s, together %v, refused %q",
			got.Min(),
			got.Total(),
			got.Mode(),
			got.MatchPolicy(),
			got.Composite(),
			got.Refusal(),
		)
	}
	delete(g.Annotations, koordinatorMatchPolicy)
	delete(g.Annotations, koordinatorGroups)
	if _, err := s.Upsert(eventlog.XPodGroups, g); err != nil {
		t.Fatal(err)
	}
	if got.MatchPolicy() != gang.WaitingAndRunning || got.Composite() != nil {
		t.Errorf("%s, together %v", got.MatchPolicy(), got.Composite())
	}
}

// TestAGroupDependsOnItsPresentMembersNotOnTheirHistory lets members come, change and go, and compares the group with
// one of a state in which they came in another order and nothing else ever was.
func TestAGroupDependsOnItsPresentMembersNotOnTheirHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		there := map[string]*v1.Pod{}
		object := false
		draw := func() *v1.Pod {
			p := says(fmt.Sprintf("p%d", rapid.IntRange(0, 6).Draw(t, "name")), []string{sigsNameLabel + "=g"}, nil)
			pick := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
			p.Annotations[koordinatorMin] = pick("min", "", "2", "2", "2", "3", "x")
			p.Annotations[koordinatorTotal] = pick("total", "", "", "", "1")
			p.Annotations[belowMinimum] = pick("below", "", "", "", "Evict", "Evict", "Keep", "x")
			p.Labels[kueueNameLabel] = pick("kueue", "", "", "", "g", "h")
			p.Spec.SchedulerName = pick("scheduler", "a", "a", "a", "a", "b")
			priority := rapid.SampledFrom([]int32{0, 0, 0, 0, 1}).Draw(t, "priority")
			p.Spec.Priority = &priority
			return p
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			p := draw()
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0, 1, 2:
				if _, err := s.DeletePod(p.UID); err != nil {
					t.Fatal(err)
				}
				delete(there, p.Name)
			case 3:
				object = !object
				if setObject(t, s, object); !object {
					s.Delete(eventlog.XPodGroups, "ml", "g")
				}
			default:
				if _, err := s.UpsertPod(p); err != nil {
					t.Fatal(err)
				}
				there[p.Name] = p
			}
			if rapid.Bool().Draw(t, "ask") { // so that what is remembered from before may be wrong
				compareWithAnother(t, s, there, object)
			}
		}
		compareWithAnother(t, s, there, object)
	})
}

func setObject(t *rapid.T, s *State, there bool) {
	if !there {
		return
	}
	g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g"}}
	g.Spec.MinMember = 4
	g.Annotations = map[string]string{belowMinimum: "Evict"}
	if _, err := s.Upsert(eventlog.XPodGroups, g); err != nil {
		t.Fatal(err)
	}
}

func compareWithAnother(t *rapid.T, s *State, there map[string]*v1.Pod, object bool) {
	another := New()
	names := slices.Sorted(maps.Keys(there))
	if rapid.Bool().Draw(t, "reversed") {
		slices.Reverse(names)
	}
	for _, name := range names {
		if _, err := another.UpsertPod(there[name]); err != nil {
			t.Fatal(err)
		}
	}
	setObject(t, another, object)
	tell := func(g *Group) string {
		if g == nil {
			return "none"
		}
		return fmt.Sprintf(
			"declared %v, min %d of %d, evicted %v, refused %q",
			g.Declared(),
			g.Min(),
			g.Total(),
			g.Evicts(),
			g.Refusal(),
		)
	}
	got, want := tell(s.Gangs().Named("ml", "g")), tell(another.Gangs().Named("ml", "g"))
	if got != want {
		t.Fatalf("the group is %s; of the same members in another order it is %s", got, want)
	}
	if naive := contradicts(
		there,
		object,
	); naive != strings.Contains(got, "refused \"p") &&
		naive != strings.Contains(got, "refused \"it") {
		t.Fatalf("the group is %s; it contradicts itself: %v", got, naive)
	}
}

// contradicts is Refusal in the simplest way.
func contradicts(members map[string]*v1.Pod, object bool) bool {
	minimums, totals, priorities, schedulers := map[string]bool{}, map[string]bool{}, map[int32]bool{},
		map[string]bool{}
	below := map[string]bool{}
	for _, p := range members {
		priorities[*p.Spec.Priority], schedulers[p.Spec.SchedulerName] = true, true
		if p.Labels[kueueNameLabel] == "h" {
			return true
		}
		if b := p.Annotations[belowMinimum]; b != "" {
			below[b] = true
		}
		if m := p.Annotations[koordinatorMin]; m != "" {
			minimums[m] = true
			totals[p.Annotations[koordinatorTotal]] = true
		}
	}
	if !object && (minimums["x"] || len(minimums) > 1 || len(totals) > 1 || totals["1"]) {
		return true
	}
	if below["x"] || len(below) > 1 || object && below["Keep"] {
		return true
	}
	return len(priorities) > 1 || len(schedulers) > 1
}

// BenchmarkMembersCome measures what one more member costs when there are many, with a contradiction among them and
// without.
func BenchmarkMembersCome(b *testing.B) {
	for _, members := range []int{1000, 100000} {
		for _, contradiction := range []string{"2", "3"} {
			b.Run(fmt.Sprintf("%d/%s", members, contradiction), func(b *testing.B) {
				s := New()
				add := func(i int, minimum string) *Group {
					p := says(
						fmt.Sprintf("p%09d", i),
						[]string{sigsNameLabel + "=g"},
						[]string{koordinatorMin + "=" + minimum},
					)
					if _, err := s.UpsertPod(p); err != nil {
						b.Fatal(err)
					}
					return s.Pods().Get(p.UID).Group
				}
				add(0, contradiction)
				for i := range members {
					add(i+1, "2")
				}
				i := members
				for b.Loop() {
					i++
					if g := add(i, "2"); (g.Refusal() != "") != (contradiction == "3") {
						b.Fatal(g.Refusal())
					}
				}
			})
		}
	}
}
