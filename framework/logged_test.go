package framework_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// argsOfForeign returns the arguments of the plugin Foreign in a configuration, as its factory receives them.
func argsOfForeign(cfg *config.KubeSchedulerConfiguration) runtime.Object {
	for _, c := range cfg.Profiles[0].PluginConfig {
		if c.Name == "Foreign" {
			return c.Args
		}
	}
	return nil
}

// asDecoded returns the result of DecodeInto for the arguments, or its error.
func asDecoded(args runtime.Object) string {
	var into any
	err := frameworkruntime.DecodeInto(args, &into)
	return fmt.Sprintf("%#v %v", into, err)
}

// upstreamArgs returns the arguments that kube-scheduler passes to the plugin's factory.
func upstreamArgs(t rapid.TB, text string) runtime.Object {
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil) // as app/options/configfile.go
	if err != nil {
		t.Fatal(err)
	}
	return argsOfForeign(obj.(*config.KubeSchedulerConfiguration))
}

// jsonValue draws JSON.
func jsonValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(r *rapid.T) any {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds).Draw(r, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"", "x", "a b", "<&>", "ü\n", "1", "null"}).Draw(r, "text")
		case 1:
			numbers := []json.Number{"0", "-1", "9007199254740993", "0.5", "1e3", "1.0"}
			return rapid.SampledFrom(numbers).Draw(r, "number")
		case 2:
			return rapid.Bool().Draw(r, "bool")
		case 3, 4:
			return nil
		case 5:
			return rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(r, "list")
		}
		keys := rapid.SampledFrom([]string{"b", "a", "Kind", "x y", ""})
		return rapid.MapOfN(keys, jsonValue(depth-1), 0, 4).Draw(r, "map")
	})
}

// TestArgumentsOfForeignPluginsAreKubeSchedulers gives a plugin that kube-scheduler does not have arguments of every
// form. Its factory decodes the same as with kube-scheduler, in the run and from the log.
func TestArgumentsOfForeignPluginsAreKubeSchedulers(t *testing.T) {
	check := func(t rapid.TB, entry string) {
		text := `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration",` +
			`"profiles":[{"plugins":{"filter":{"enabled":[{"name":"Foreign"}]}},"pluginConfig":[` + entry + `]}]}`
		cfg, err := framework.LoadConfig([]byte(text), "config")
		if err != nil {
			t.Fatal(err)
		}
		given := argsOfForeign(cfg.KubeSchedulerConfiguration)
		theirs := upstreamArgs(t, text)
		if reflect.TypeOf(given) != reflect.TypeOf(theirs) || asDecoded(given) != asDecoded(theirs) {
			t.Errorf("%s: the factory is given %T %s, and in kube-scheduler %T %s", entry, given, asDecoded(given),
				theirs, asDecoded(theirs))
		}
		logged, err := framework.EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		again, err := framework.LoadConfig(logged, "log")
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		replayed := argsOfForeign(again.KubeSchedulerConfiguration)
		if reflect.TypeOf(replayed) != reflect.TypeOf(theirs) || asDecoded(replayed) != asDecoded(theirs) {
			t.Errorf("%s: the factory is given %T %s from the log, and before %T %s", entry, replayed,
				asDecoded(replayed), theirs, asDecoded(theirs))
		}
		if twice, err := framework.EncodeConfig(again); err != nil || string(twice) != string(logged) {
			t.Errorf("%s: logged again it is another configuration (%v):\n%s\n%s", entry, err, logged, twice)
		}
	}
	for _, entry := range []string{
		``, `{"name":"Foreign"}`, `{"name":"Foreign","args":null}`, `{"name":"Foreign","args":{}}`,
		`{"name":"Foreign","args":[]}`, `{"name":"Foreign","args":5}`, `{"name":"Foreign","args":"text"}`,
		`{"name":"Foreign","args":{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"ForeignArgs","limit":2}}`,
		`{"name":"Foreign","args":{"apiVersion":"example.com/v1","kind":"Limits","limit":9007199254740993}}`,
		`{"name":"Foreign","args":{"z":1,"a":{"y":[1,2],"b":"<&>"}}}`,
	} {
		t.Run(entry, func(t *testing.T) { check(t, entry) })
	}
	rapid.Check(t, func(r *rapid.T) {
		args, err := json.Marshal(jsonValue(3).Draw(r, "args"))
		if err != nil {
			r.Fatal(err)
		}
		check(r, `{"name":"Foreign","args":`+string(args)+`}`)
	})
}

// enabledIn returns the names of the plugins that are enabled at any extension point, sorted.
func enabledIn(cfg *framework.Config) []string {
	names := map[string]bool{}
	for _, profile := range cfg.Profiles {
		sets := reflect.ValueOf(*profile.Plugins)
		for i := range sets.NumField() {
			for _, plugin := range sets.Field(i).Interface().(config.PluginSet).Enabled {
				names[plugin.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// TestMissingPluginsAreThoseForWhichAConfigurationIsRefused compares with ValidatePlugins.
func TestMissingPluginsAreThoseForWhichAConfigurationIsRefused(t *testing.T) {
	registry := plugins.NewRegistry()
	registry.Factories["Known"] = registry.Factories["NodeName"]
	names := rapid.SampledFrom([]string{"NodeName", "ImageLocality", "GangScheduling", "DynamicResources", "Known",
		"Foreign", "Other", "*"})
	set := rapid.Custom(func(r *rapid.T) configv1.PluginSet {
		list := func(label string) (out []configv1.Plugin) {
			for _, name := range rapid.SliceOfNDistinct(names, 0, 2, rapid.ID[string]).Draw(r, label) {
				if name != "*" || label == "disabled" {
					out = append(out, configv1.Plugin{Name: name})
				}
			}
			return out
		}
		return configv1.PluginSet{Enabled: list("enabled"), Disabled: list("disabled")}
	})
	refused, accepted := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		external := configv1.KubeSchedulerConfiguration{}
		external.APIVersion, external.Kind = configv1.SchemeGroupVersion.String(), "KubeSchedulerConfiguration"
		for i := range rapid.IntRange(1, 2).Draw(r, "profiles") {
			name := fmt.Sprint("p", i)
			profile := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &configv1.Plugins{
				MultiPoint: set.Draw(r, "multiPoint"), Filter: set.Draw(r, "filter"), Score: set.Draw(r, "score"),
			}}
			if rapid.Bool().Draw(r, "with arguments") {
				foreign := rapid.SampledFrom([]string{"Known", "Foreign"}).Draw(r, "of")
				profile.PluginConfig = []configv1.PluginConfig{{
					Name: foreign, Args: runtime.RawExtension{Raw: []byte(`{"a":1}`)},
				}}
			}
			external.Profiles = append(external.Profiles, profile)
		}
		text, err := json.Marshal(external)
		if err != nil {
			r.Fatal(err)
		}
		cfg, err := framework.LoadConfig(text, "config")
		if err != nil {
			return // something else is wrong with it
		}
		logged, err := framework.EncodeConfig(cfg)
		if err != nil {
			r.Fatal(err)
		}
		var missing *framework.MissingPluginError
		err = framework.ValidatePlugins(cfg, registry)
		found := registry.Missing(logged)
		if errors.As(err, &missing) != (len(found) > 0) || missing != nil && !slices.Contains(found, missing.Plugin) {
			r.Fatalf("missing are %q, and the configuration is refused with: %v\n%s", found, err, logged)
		}
		if len(found) > 0 {
			refused++
		} else {
			accepted++
		}
		if got, want := framework.LoggedPlugins(logged), enabledIn(cfg); !slices.Equal(got, want) {
			r.Fatalf("enabled are %q, want %q", got, want)
		}
	})
	if refused == 0 || accepted == 0 {
		t.Errorf("%d refused, %d accepted", refused, accepted)
	}
}
