package explain_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// The usable part of a free amount, and the rest by cause and by domain, add up to it in every answer.
func TestTheCausesAndTheDomainsAddUpToWhatIsFree(t *testing.T) {
	uses, causes, domains := 0, map[answer.RoomCause]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		s.Configure(configurationOfHistories)
		for i := range rapid.IntRange(1, 6).Draw(rt, "nodes") {
			s.Step(fmt.Sprintf("node m%d cpu=%d gpu=%d %s %s", i, rapid.IntRange(1, 4).Draw(rt, "cpu"),
				rapid.IntRange(0, 4).Draw(rt, "gpu"),
				rapid.SampledFrom([]string{"", "label=rack:a", "label=rack:b"}).Draw(rt, "rack"),
				rapid.SampledFrom([]string{"", "", "cordoned", "taint=busy"}).Draw(rt, "state")))
		}
		s.Step(fmt.Sprintf("group ml/near min=2 topology=rack; pod ml/near- cpu=1 gpu=%d group=near count=2",
			rapid.IntRange(0, 3).Draw(rt, "of the gang")))
		for range rapid.IntRange(0, 10).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		check := func(x any, err error) {
			if err != nil {
				return // it is not there
			}
			eachUse(reflect.ValueOf(x), func(u answer.ResourceUse) {
				uses++
				sum := u.Usable + u.UnusableOthers
				for _, part := range u.Unusable {
					causes[part.Cause]++
					if sum += part.Amount; part.Amount <= 0 || part.Nodes < len(part.Examples) {
						rt.Fatalf("a part is %+v", part)
					}
				}
				if sum != u.Free {
					rt.Fatalf("%s: %d are free, and the parts are %d: %+v", u.Resource, u.Free, sum, u)
				}
				if d := u.Domains; d != nil {
					domains++
					sum := d.OthersFree + d.OutsideFree
					for _, row := range d.Domains {
						if sum += row.Free; row.Usable > row.Free || row.Chosen && row.Usable != u.Usable {
							rt.Fatalf("%s: usable is %d, of a domain %+v", u.Resource, u.Usable, row)
						}
					}
					if sum != u.Free {
						rt.Fatalf("%s: %d are free, and the domains have %d: %+v", u.Resource, u.Free, sum, d)
					}
				}
			})
		}
		ctx := context.Background()
		for _, name := range []string{"near", "g0", "g1", "g2", "g3"} {
			x, err := explain.Group(ctx, wholeLog(s.Log()), "ml", name, explain.Options{})
			check(x, err)
		}
		for _, p := range s.Machine().Cluster().Pods().All() {
			x, err := explain.Pod(ctx, wholeLog(s.Log()), p.Object.Namespace, p.Object.Name, explain.Options{})
			check(x, err)
		}
	})
	for _, cause := range []answer.RoomCause{answer.Cordoned, answer.Tainted, answer.NotSelected, answer.NoDomain,
		answer.OtherDomain, answer.Fragmented, answer.LacksOther} {
		if causes[cause] == 0 {
			t.Errorf("no amount has the cause %s", cause)
		}
	}
	if uses < 100 || domains < 10 {
		t.Errorf("only %d amounts were checked, %d of them with domains", uses, domains)
	}
}

// eachUse calls f with each ResourceUse in an answer.
func eachUse(v reflect.Value, f func(answer.ResourceUse)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachUse(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachUse(v.Index(i), f)
		}
	case reflect.Struct:
		if u, ok := v.Interface().(answer.ResourceUse); ok {
			f(u)
			return
		}
		for i := range v.NumField() {
			eachUse(v.Field(i), f)
		}
	}
}

// Without the causes, all of the free room would count as usable.
func TestRoomOnNodesThatPodsCannotUseIsSplitByCause(t *testing.T) {
	s := transcripts.New(t)
	for _, step := range []string{"node n1 cpu=4 gpu=4", "node n2 cpu=4 gpu=3 cordoned",
		"node n3 cpu=4 gpu=2 taint=busy",
		"node n4 cpu=4 gpu=1", "node n5 cpu=1 gpu=4", "group ml/g min=5", "pod ml/g- cpu=2 gpu=3 group=g count=5"} {
		s.Step(step)
	}
	x, err := explain.Group(context.Background(), wholeLog(s.Log()), "ml", "g", explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range x.Needs.Resources {
		if u.Resource == "nvidia.com/gpu" {
			got = append(got, fmt.Sprintf("usable %d of %d", u.Usable, u.Free))
			for _, part := range u.Unusable {
				got = append(got, fmt.Sprintf("%s %s %d %v", part.Cause, part.By, part.Amount, part.Examples))
			}
		}
	}
	want := []string{"usable 3 of 14", "LacksOther cpu 4 [n5]", "Cordoned  3 [n2]", "Fragmented  2 [n1 n4]",
		"Tainted busy:NoSchedule 2 [n3]"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// An answer says that no domain can hold a gang only where that is certain.
func TestThatNoDomainCanHoldAGangIsSaidOnlyWhereItIsCertain(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"more than any rack", []string{"pod ml/g- cpu=1 gpu=4 group=g count=3"}, "rack=a holds 2 of 3"},
		{"fits in an empty rack", []string{
			"pod ml/old cpu=1 gpu=4 node=a1", "pod ml/g- cpu=1 gpu=2 group=g count=3"}, ""},
		{"a cordon may end", []string{"node a1 cpu=8 gpu=8 label=rack:a cordoned",
			"pod ml/g- cpu=1 gpu=3 group=g count=3"}, ""},
		{"none selected", []string{"pod ml/g- cpu=1 gpu=1 group=g count=3 selector=disk:ssd"}, ""},
		{"members that differ", []string{"pod ml/g-0 cpu=1 gpu=4 group=g", "pod ml/g-1 cpu=1 gpu=4 group=g",
			"pod ml/g-2 cpu=1 gpu=3 group=g"}, "rack=a has 8 of 11"},
		{"members that differ and may fit", []string{"pod ml/g-0 cpu=1 gpu=4 group=g", "pod ml/g-1 cpu=1 gpu=2 group=g",
			"pod ml/g-2 cpu=1 gpu=2 group=g"}, ""},
	} {
		s := transcripts.New(t)
		for _, step := range append([]string{"node a1 cpu=8 gpu=4 label=rack:a", "node a2 cpu=8 gpu=4 label=rack:a",
			"node b1 cpu=8 gpu=4 label=rack:b", "node o cpu=8 gpu=8", "group ml/g min=3 topology=rack"}, c.steps...) {
			s.Step(step)
		}
		x, err := explain.Group(context.Background(), wholeLog(s.Log()), "ml", "g", explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if x.Reason != nil && x.Reason.DomainLimit != nil {
			l := x.Reason.DomainLimit
			if got = fmt.Sprintf("%s has %d of %d", l.Largest, l.Allocatable, l.Needed); l.Holds != nil {
				got = fmt.Sprintf("%s holds %d of %d", l.Largest, *l.Holds, l.Members)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A requirement that no node meets has the labels that are similar beside it.
func TestARequirementThatNoNodeMeetsHasItsNearMisses(t *testing.T) {
	for _, c := range []struct{ selector, want string }{
		{"gpu:h100", "[gpu=H100 2][gpu=H200 1][gpu=A10 1]+1"},
		{"gpu:a1o", "[gpu=A10 1][gpu=H100 2][gpu=H200 1]+1"},
		{"GPU:H100", "[gpu=H100 2]"},
		{"example.com/gpu:H200", "[gpu=H200 1]"},
		{"dsk:ssd", "[disk=ssd 1]"},
		{"colour:red", ""},
	} {
		s := transcripts.New(t)
		for i, label := range []string{"gpu:H100", "gpu:H100", "gpu:H200", "gpu:A10", "gpu:T4-shared", "disk:ssd"} {
			s.Step(fmt.Sprintf("node n%d cpu=4 label=%s", i, label))
		}
		s.Step("pod ml/p cpu=1 selector=" + c.selector)
		x, err := explain.Pod(context.Background(), wholeLog(s.Log()), "ml", "p", explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if x.Reason == nil || x.Reason.Unmatched == nil || len(x.Reason.Unmatched.Requirements) != 1 {
			t.Fatalf("%s: the reason is %+v", c.selector, x.Reason)
		}
		r, got := x.Reason.Unmatched.Requirements[0], ""
		for _, near := range r.NearMisses {
			got += fmt.Sprintf("[%s=%s %d]", near.Key, near.Value, near.Nodes)
		}
		if r.OtherValues > 0 {
			got += fmt.Sprintf("+%d", r.OtherValues)
		}
		if r.Nodes != 0 || got != c.want {
			t.Errorf("%s, met by %d nodes: got %s, want %s", c.selector, r.Nodes, got, c.want)
		}
	}
}
