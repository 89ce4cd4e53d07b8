package framework

import (
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

// workloadGates are the gates that Kubernetes' own scheduler tests turn on.
var workloadGates = map[string]bool{
	"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true,
	"PodGroupPreemptionPolicy": true,
}

func encoded(t testing.TB, cfg *Config) string {
	t.Helper()
	b, err := EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFeatureGatesAreLoggedAndReadBack(t *testing.T) {
	const field = `"featureGates":{"StorageCapacityScoring":false,"TaintTolerationComparisonOperators":true},`
	for _, body := range []string{
		"featureGates: {TaintTolerationComparisonOperators: true, StorageCapacityScoring: false}",
		"featureGates:\n  TaintTolerationComparisonOperators: true\n  PodLevelResources: true\n" +
			"  StorageCapacityScoring: false",
	} {
		cfg := load(t, body)
		logged := encoded(t, cfg)
		if !strings.Contains(logged, field) {
			t.Errorf("%s is logged as %s", body, logged)
		}
		again, err := LoadConfig([]byte(logged), "log")
		if err != nil {
			t.Fatal(err)
		}
		if second := encoded(t, again); second != logged || again.FeatureGates != cfg.FeatureGates {
			t.Errorf("%s\nreads back as\n%s", logged, second)
		}
		named := LoggedFeatureGates([]byte(logged))
		if len(named) != 2 || !named["TaintTolerationComparisonOperators"] {
			t.Errorf("%s is said to have the gates %v", logged, named)
		}
		// Without the gates they are the same bytes.
		if without := strings.Replace(logged, field, "", 1); !SameConfig([]byte(logged), []byte(logged)) ||
			SameConfig([]byte(logged), []byte(without)) {
			t.Error("configurations are compared without their gates")
		}
	}
}

func TestWithoutFeatureGatesNothingIsLoggedOfThem(t *testing.T) {
	plain := encoded(t, DefaultConfig())
	for _, body := range []string{
		"", "featureGates: {}", "featureGates:", "featureGates: null", "featureGates: {PodLevelResources: true}",
	} {
		if got := encoded(t, load(t, body)); got != plain || strings.Contains(got, "featureGates") {
			t.Errorf("%q is logged as %s", body, got)
		}
	}
}

func TestGivenFeatureGatesGoBeforeThoseOfTheFile(t *testing.T) {
	file := []byte(header + "featureGates: {GenericWorkload: true, TaintTolerationComparisonOperators: true}")
	first := map[string]bool{"TaintTolerationComparisonOperators": false, "StorageCapacityScoring": false}
	const want = "GenericWorkload=true,StorageCapacityScoring=false"
	cfg, err := ReadOptions{FeatureGates: first}.LoadConfig(file, "file")
	if err != nil || cfg.FeatureGates.String() != want {
		t.Errorf("the gates are %q, error %v", cfg.FeatureGates, err)
	}
	live := LiveOptions{FeatureGates: first, Note: func(string) {}}
	const early = "SchedulerPopFromBackoffQ=true,StorageCapacityScoring=false"
	cfg, err = live.LoadConfig(file, "file")
	if err != nil || cfg.FeatureGates.String() != "GenericWorkload=true,"+early {
		t.Errorf("of a live scheduler the gates are %q, error %v", cfg.FeatureGates, err)
	}
	if cfg, err = live.DefaultConfig(); err != nil || cfg.FeatureGates.String() != early {
		t.Errorf("of a live scheduler without a file the gates are %q, error %v", cfg.FeatureGates, err)
	}
	if first["GenericWorkload"] || len(first) != 2 {
		t.Error("the caller's gates have changed")
	}
}

// TestEarlyAttemptsAreOnInALiveSchedulerAlone is about the gate SchedulerPopFromBackoffQ. A configuration may set it by
// name or with the beta gates. If it does not, a live scheduler logs that the gate is on.
func TestEarlyAttemptsAreOnInALiveSchedulerAlone(t *testing.T) {
	for body, want := range map[string]struct{ live, other string }{
		"": {live: "SchedulerPopFromBackoffQ=true"},
		"featureGates: {SchedulerPopFromBackoffQ: true}": {
			"SchedulerPopFromBackoffQ=true", "SchedulerPopFromBackoffQ=true"},
		"featureGates: {SchedulerPopFromBackoffQ: false}": {},
	} {
		cfg, err := LiveOptions{Note: func(string) {}}.LoadConfig([]byte(header+body), "file")
		if err != nil || cfg.FeatureGates.String() != want.live {
			t.Errorf("%q: the gates of a live scheduler are %q, error %v", body, cfg.FeatureGates, err)
		}
		logged := encoded(t, cfg)
		if again, err := LoadConfig([]byte(logged), "log"); err != nil || encoded(t, again) != logged {
			t.Errorf("%q is another configuration when it is read back, error %v", body, err)
		}
		if got := load(t, body).FeatureGates.String(); got != want.other {
			t.Errorf("%q: the gates are %q, want %q", body, got, want.other)
		}
	}
	all := map[string]bool{"AllBeta": false}
	for _, named := range []map[string]bool{all, gates.WithPopFromBackoffQ(all)} {
		if set, err := gates.Resolve(named); err != nil || set.On(gates.PopFromBackoffQ) {
			t.Errorf("with %v the gates are %q, error %v", named, set, err)
		}
	}
	if set, err := gates.Resolve(map[string]bool{"AllAlpha": false}); err != nil || set.On(gates.PopFromBackoffQ) {
		t.Errorf("it is on by AllAlpha: %q, error %v", set, err)
	}
}

// A configuration is completed under its own gates, whatever the gates of the process are.
func TestAConfigurationIsCompletedUnderItsGates(t *testing.T) {
	shapes := func(cfg *Config) bool {
		return strings.Contains(encoded(t, cfg), `"shape":[{"score":10,"utilization":0},{"score":0,"utilization":100}]`)
	}
	off := load(t, "featureGates: {StorageCapacityScoring: false}")
	if shapes(off) || !shapes(DefaultConfig()) {
		t.Error("a default does not depend on the configuration's gates")
	}
	if err := gates.Put(off.FeatureGates); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := gates.Put(gates.Set{}); err != nil {
			t.Fatal(err)
		}
	}()
	if !shapes(load(t, "")) {
		t.Error("a default depends on the gates of the process")
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring) {
		t.Error("the gates of the process are not in force again")
	}
}

func TestTheDefaultProfileStandsUnderGatesThatAddPlugins(t *testing.T) {
	multi := func(cfg *Config) string { return strings.Join(multiPoint(cfg.Profiles[0]), " ") }
	plain := multi(DefaultConfig())
	cfg, err := ReadOptions{FeatureGates: workloadGates}.DefaultConfig()
	if err != nil || multi(cfg) != plain {
		t.Errorf("with the gates of workloads the plugins are %s, error %v, want %s", multi(cfg), err, plain)
	}
	ours := registryWithGangs()
	for _, name := range foreignGangPlugins {
		delete(ours.Factories, name)
	}
	for _, body := range []string{
		"", "profiles: [{schedulerName: a}, {schedulerName: b}]",
		"profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}]}}}]",
	} {
		for _, first := range []map[string]bool{workloadGates, {"AllAlpha": true, "AllBeta": true}} {
			cfg, err := ReadOptions{FeatureGates: first}.LoadConfig([]byte(header+body), "file")
			if err != nil {
				t.Fatal(err)
			}
			if err := ValidatePlugins(cfg, ours); err != nil {
				t.Errorf("%q with the gates %s: %v", body, cfg.FeatureGates, err)
			}
			again, err := LoadConfig([]byte(encoded(t, cfg)), "log")
			if err != nil || encoded(t, again) != encoded(t, cfg) {
				t.Errorf("%q with the gates %s is another configuration when it is read back, error %v", body,
					cfg.FeatureGates, err)
			}
		}
	}
	cfg, err = ReadOptions{FeatureGates: map[string]bool{"AllAlpha": true, "AllBeta": true}}.DefaultConfig()
	if err != nil || !strings.Contains(multi(cfg), names.DeferredPodScheduling) {
		t.Errorf("the plugin of a gate that is on is missing: %s, error %v", multi(cfg), err)
	}
}

func FuzzLoadConfig(f *testing.F) {
	for _, seed := range []string{
		header, header + "featureGates: {GenericWorkload: true}", header + "featureGates: [a]",
		header + "featureGates: 1",
		header + "featureGates:\n  AllAlpha: true\n  GenericWorkload: true\n  TopologyAwareWorkloadScheduling: false",
		`{"featureGates":{"a":true,"a":false}}`, `{"featureGates":{"\u0000":null}}`, "featureGates: &a {b: *a}",
		"- featureGates", "featureGates", string(encodedSeed()),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := LoadConfig(data, "fuzz")
		if gates.OfProcess()["GenericWorkload"] {
			t.Fatal("a gate is left on")
		}
		if err != nil {
			return
		}
		logged, err := EncodeConfig(cfg)
		if err != nil {
			return // a credential
		}
		again, err := LoadConfig(logged, "log")
		if err != nil {
			t.Fatalf("%s: %v", logged, err)
		}
		if second := encoded(t, again); second != string(logged) {
			t.Fatalf("%s\nreads back as\n%s", logged, second)
		}
	})
}

func encodedSeed() []byte {
	cfg, err := ReadOptions{FeatureGates: workloadGates}.DefaultConfig()
	if err != nil {
		panic(err)
	}
	logged, err := EncodeConfig(cfg)
	if err != nil {
		panic(err)
	}
	return logged
}
