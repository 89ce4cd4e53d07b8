package devices_test

import (
	"reflect"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

func taintRule(name, taint string, selector *resourcev1.DeviceTaintSelector) *resourcev1.DeviceTaintRule {
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rule.Spec.DeviceSelector = selector
	rule.Spec.Taint = resourcev1.DeviceTaint{Key: taint, Effect: resourcev1.DeviceTaintEffectNoSchedule}
	return rule
}

func poolSlice(driver, pool string, names ...string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + pool}}
	slice.Spec.Driver, slice.Spec.Pool.Name = driver, pool
	for _, name := range names {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: name, Taints: []resourcev1.DeviceTaint{{Key: "own"}},
		})
	}
	return slice
}

// taintsOf returns the keys of the taints of all devices, as plugins see them.
func taintsOf(t *testing.T, f *cluster.State) map[string][]string {
	t.Helper()
	list, err := f.Devices().ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		t.Fatal(err)
	}
	taints := map[string][]string{}
	for _, slice := range list {
		for _, device := range slice.Spec.Devices {
			for _, taint := range device.Taints {
				key := slice.Name + "/" + device.Name
				taints[key] = append(taints[key], taint.Key)
			}
		}
	}
	return taints
}

func TestRulesTaintTheDevicesThatTheySelect(t *testing.T) {
	a, one, zero := "a", "one", "0"
	plain := map[string][]string{"a-one/0": {"own"}, "a-one/1": {"own"}, "a-two/0": {"own"}, "b-one/0": {"own"}}
	for _, c := range []struct {
		name     string
		selector *resourcev1.DeviceTaintSelector
		want     []string
	}{
		{"no selector", nil, []string{"a-one/0", "a-one/1", "a-two/0", "b-one/0"}},
		{"an empty one", &resourcev1.DeviceTaintSelector{}, []string{"a-one/0", "a-one/1", "a-two/0", "b-one/0"}},
		{"a driver", &resourcev1.DeviceTaintSelector{Driver: &a}, []string{"a-one/0", "a-one/1", "a-two/0"}},
		{"a pool", &resourcev1.DeviceTaintSelector{Pool: &one}, []string{"a-one/0", "a-one/1", "b-one/0"}},
		{"a device", &resourcev1.DeviceTaintSelector{Device: &zero}, []string{"a-one/0", "a-two/0", "b-one/0"}},
		{"all three", &resourcev1.DeviceTaintSelector{Driver: &a, Pool: &one, Device: &zero}, []string{"a-one/0"}},
	} {
		want := map[string][]string{}
		for device, taints := range plain {
			want[device] = taints
		}
		for _, device := range c.want {
			want[device] = []string{"own", "ruled"}
		}
		rule := taintRule("r", "ruled", c.selector)
		logged := []eventlog.Object{
			poolSlice("a", "one", "0", "1"), poolSlice("a", "two", "0"), poolSlice("b", "one", "0"),
		}
		for _, ruleFirst := range []bool{false, true} {
			f := cluster.New()
			if ruleFirst {
				mustUpsert(t, f, rule)
			}
			for _, slice := range logged {
				mustUpsert(t, f, slice)
			}
			if !ruleFirst {
				mustUpsert(t, f, rule)
			}
			if got := taintsOf(t, f); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, the rule first %v: %v, want %v", c.name, ruleFirst, got, want)
			}
			f.Delete(eventlog.DeviceTaintRules, "", "r")
			if got := taintsOf(t, f); !reflect.DeepEqual(got, plain) {
				t.Errorf("%s, without the rule: %v, want %v", c.name, got, plain)
			}
		}
	}
}

// Changes has the slices that a rule changes once, by name, with the taints before and now.
func TestChangedSlicesAreTold(t *testing.T) {
	f := cluster.New()
	b := "b"
	mustUpsert(t, f, poolSlice("b", "y", "0"), poolSlice("a", "x", "0"), poolSlice("b", "x", "0"))
	told := func() (names []string) {
		for _, c := range f.TakeChanges().Devices.Tainted {
			if c.Before.Name != c.Now.Name || devices.SameTaints(c.Before, c.Now) {
				t.Errorf("slice %s became %s with taints %v", c.Before.Name, c.Now.Name, c.Now.Spec.Devices[0].Taints)
			}
			names = append(names, c.Now.Name)
		}
		return names
	}
	check := func(what string, want ...string) {
		t.Helper()
		if got := told(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("no rule yet")
	mustUpsert(t, f, taintRule("r", "one", &resourcev1.DeviceTaintSelector{Driver: &b}))
	check("a new rule", "b-x", "b-y")
	check("told already")
	mustUpsert(t, f, taintRule("r", "one", &resourcev1.DeviceTaintSelector{Driver: &b}))
	check("the same rule")
	mustUpsert(t, f, taintRule("r", "two", nil))
	check("another taint, for all", "a-x", "b-x", "b-y")
	f.Delete(eventlog.ResourceSlices, "", "a-x")
	f.Delete(eventlog.DeviceTaintRules, "", "r")
	check("the rule is gone", "b-x", "b-y")
}

func TestRulesCountWithTheirFeatureGateOnly(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRADeviceTaintRules, false)
	f := cluster.New()
	mustUpsert(t, f, poolSlice("a", "x", "0"))
	mustUpsert(t, f, taintRule("r", "ruled", nil))
	if got, want := taintsOf(t, f), map[string][]string{"a-x/0": {"own"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if told := f.TakeChanges().Devices.Tainted; told != nil {
		t.Errorf("told %v", told)
	}
}

// A state without rules is written as before there were any, and one with rules is restored with their taints.
func TestRulesAreRestored(t *testing.T) {
	for _, with := range []bool{false, true} {
		s := cluster.New()
		if _, err := s.Upsert(eventlog.ResourceSlices, poolSlice("a", "x", "0")); err != nil {
			t.Fatal(err)
		}
		if with {
			if _, err := s.Upsert(eventlog.DeviceTaintRules, taintRule("r", "ruled", nil)); err != nil {
				t.Fatal(err)
			}
		}
		state, err := s.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		restored := cluster.New()
		if err := restored.Restore(canonical.NewReader(state)); err != nil {
			t.Fatal(err)
		}
		if got, want := taintsOf(t, restored), taintsOf(t, s); !reflect.DeepEqual(got, want) {
			t.Errorf("with rules %v: %v, want %v", with, got, want)
		}
		again, err := restored.AppendState(nil)
		if err != nil || string(again) != string(state) {
			t.Errorf("with rules %v: the state is another one: %v", with, err)
		}
	}
}
