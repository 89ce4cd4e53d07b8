package gates_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

func on(name featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(name) }

// values returns all gates of the process.
func values() map[featuregate.Feature]bool {
	all := map[featuregate.Feature]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		all[name] = on(name)
	}
	return all
}

func resolve(t interface {
	Helper()
	Fatal(...any)
}, named map[string]bool) gates.Set {
	t.Helper()
	set, err := gates.Resolve(named)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// atDefaults resets the gates of the process to their defaults after the test.
func atDefaults(t *testing.T) {
	t.Cleanup(func() {
		if err := gates.Put(gates.Set{}); err != nil {
			t.Error(err)
		}
	})
}

func TestASetIsWhatIsNotAtItsDefault(t *testing.T) {
	for _, tt := range []struct {
		named map[string]bool
		want  string
	}{
		{nil, ""},
		{map[string]bool{"GenericWorkload": false, "PodLevelResources": true}, ""},
		{map[string]bool{"TaintTolerationComparisonOperators": true, "StorageCapacityScoring": false, "AllBeta": false,
			"GenericWorkload": true}, "-"},
		{map[string]bool{"TaintTolerationComparisonOperators": true, "StorageCapacityScoring": false},
			"StorageCapacityScoring=false,TaintTolerationComparisonOperators=true"},
	} {
		set := resolve(t, tt.named)
		if tt.want == "-" {
			m := set.Map()
			if !m["GenericWorkload"] || !m["TaintTolerationComparisonOperators"] {
				t.Errorf("%v is %s: what is named does not go before AllBeta", tt.named, set)
			}
			if _, all := m["AllBeta"]; all || len(m) < 10 {
				t.Errorf("%v is %s: want the gates that AllBeta stands for in its place", tt.named, set)
			}
			continue
		}
		if set.String() != tt.want {
			t.Errorf("%v is %q, want %q", tt.named, set, tt.want)
		}
	}
}

func TestGatesThatCannotBeSetAreNamed(t *testing.T) {
	for _, tt := range []struct {
		named map[string]bool
		want  []string
	}{
		{map[string]bool{"Bogus": true}, []string{`this binary's Kubernetes, 1.37, has no feature gate "Bogus"`}},
		{map[string]bool{"": true}, []string{`has no feature gate ""`}},
		{map[string]bool{"NodeDeclaredFeatures": false}, []string{`"NodeDeclaredFeatures" is locked to true`}},
		{map[string]bool{"CompositePodGroup": true},
			[]string{"CompositePodGroup is enabled", "GenericWorkload", "TopologyAwareWorkloadScheduling"}},
	} {
		_, err := gates.Resolve(tt.named)
		for _, part := range tt.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v: error %v, want one with %s", tt.named, err, part)
			}
		}
	}
}

func TestPutSetsAllGatesOfTheProcess(t *testing.T) {
	atDefaults(t)
	defaults := values()
	var names []string
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if !spec.LockToDefault {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		named := rapid.MapOfN(rapid.SampledFrom(names), rapid.Bool(), 0, 8).Draw(t, "gates")
		set, err := gates.Resolve(named)
		if err != nil {
			t.Skip("gates that need each other")
		}
		again := resolve(t, set.Map())
		if again != set {
			t.Fatalf("%s is resolved to %s", set, again)
		}
		if err := gates.Put(set); err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(defaults)
		for name, value := range set.Map() {
			want[featuregate.Feature(name)] = value
		}
		if got := values(); !maps.Equal(got, want) {
			t.Fatalf("with %s the gates are not at what it says", set)
		}
		for name, value := range named {
			apart := name == "AllAlpha" || name == "AllBeta" || name == gates.PopFromBackoffQ
			if !apart && on(featuregate.Feature(name)) != value {
				t.Fatalf("%s is %t, asked for: %v", name, !value, named)
			}
		}
		if set == (gates.Set{}) && !maps.Equal(values(), defaults) {
			t.Fatal("the gates are not at their defaults again")
		}
	})
}

func TestDuringPutsBackWhatWasInForce(t *testing.T) {
	atDefaults(t)
	workload := resolve(t, map[string]bool{"GenericWorkload": true})
	taints := resolve(t, map[string]bool{"TaintTolerationComparisonOperators": true})
	if err := gates.Put(workload); err != nil {
		t.Fatal(err)
	}
	err := gates.During(taints, func() {
		if on(features.GenericWorkload) || !on(features.TaintTolerationComparisonOperators) {
			t.Error("other gates are in force than those that were asked for")
		}
	})
	if err != nil || !on(features.GenericWorkload) || on(features.TaintTolerationComparisonOperators) {
		t.Errorf("the gates that were in force are not in force again, error %v", err)
	}
}

func TestWhatOthersChangeInTheProcessIsPutRight(t *testing.T) {
	atDefaults(t)
	if err := gates.Put(gates.Set{}); err != nil {
		t.Fatal(err)
	}
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	if got := gates.OfProcess(); !maps.Equal(got, map[string]bool{"GenericWorkload": true}) {
		t.Errorf("the process's gates are said to be %v", got)
	}
	if err := gates.During(gates.Set{}, func() {
		if on(features.GenericWorkload) {
			t.Error("a gate that others have set is in force")
		}
	}); err != nil || !on(features.GenericWorkload) {
		t.Errorf("what others have set is not in force again, error %v", err)
	}
	if err := gates.Put(gates.Set{}); err != nil || on(features.GenericWorkload) {
		t.Errorf("Put leaves a gate that others have set, error %v", err)
	}
}

func TestAllAlphaOfTheProcessEndsWithPut(t *testing.T) {
	atDefaults(t)
	defaults := values()
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		"AllAlpha": true, "GenericWorkload": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	chosen := gates.OfProcess()
	if !chosen["AllAlpha"] || !chosen["TaintTolerationComparisonOperators"] {
		t.Errorf("the process's gates are said to be %v", chosen)
	}
	set := resolve(t, chosen)
	if err := gates.Put(gates.Set{}); err != nil || !maps.Equal(values(), defaults) {
		t.Errorf("the gates are not at their defaults, error %v", err)
	}
	workload := resolve(t, map[string]bool{"GenericWorkload": true})
	if err := gates.Put(workload); err != nil || on(features.TaintTolerationComparisonOperators) {
		t.Errorf("AllAlpha is heeded after others were put, error %v", err)
	}
	if err := gates.Put(set); err != nil || !on(features.TaintTolerationComparisonOperators) {
		t.Errorf("what AllAlpha stands for is not in force, error %v", err)
	}
}

func TestKeepPutsASetInForceAgain(t *testing.T) {
	atDefaults(t)
	a, b := resolve(t, map[string]bool{"GenericWorkload": true}), gates.Set{}
	for range 3 {
		for _, set := range []gates.Set{a, b} {
			gates.Keep(set)
			gates.Keep(set)
			if on(features.GenericWorkload) != (set == a) {
				t.Errorf("%q is not in force", set)
			}
		}
	}
}
