package framework

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func load(t *testing.T, body string) *Config {
	t.Helper()
	cfg, err := LoadConfig([]byte(header+body), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func multiPoint(p config.KubeSchedulerProfile) []string {
	var names []string
	for _, e := range p.Plugins.MultiPoint.Enabled {
		names = append(names, e.Name)
	}
	return names
}

func argsFor[T runtime.Object](t *testing.T, p config.KubeSchedulerProfile, name string) T {
	t.Helper()
	for _, c := range p.PluginConfig {
		if c.Name == name {
			args, ok := c.Args.(T)
			if !ok {
				t.Fatalf("arguments of %s are a %T", name, c.Args)
			}
			return args
		}
	}
	t.Fatalf("no arguments of %s", name)
	panic("unreachable")
}

func registryWithGangs() Registry {
	r := intree.NewInTreeRegistry()
	r[coscheduling] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil }
	return Registry{Factories: r}
}

func TestDefaultsDifferFromUpstreamsWhereSaid(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"no file": DefaultConfig(), "an empty one": load(t, ""), "an empty profile": load(t, "profiles: [{}]"),
	} {
		p := cfg.Profiles[0]
		got := multiPoint(p)
		if want := []string{
			"SchedulingGates", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts",
			"NodeResourcesFit",
			"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
			"InterPodAffinity",
			"DynamicResources", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality",
			"DefaultBinder", "NodeDeclaredFeatures",
			"Coscheduling",
		}; !slices.Equal(got, want) {
			t.Errorf("%s: plugins %v", name, got)
		}
		if p.SchedulerName != "default-scheduler" || *p.PercentageOfNodesToScore != 100 ||
			*cfg.PercentageOfNodesToScore != 100 {
			t.Errorf("%s: profile %q scores %d%%", name, p.SchedulerName, *p.PercentageOfNodesToScore)
		}
		spread := argsFor[*config.PodTopologySpreadArgs](t, p, "PodTopologySpread")
		if spread.DefaultingType != config.ListDefaulting || len(spread.DefaultConstraints) != 0 {
			t.Errorf("%s: spread %+v", name, spread)
		}
		if dra := argsFor[*config.DynamicResourcesArgs](t, p, "DynamicResources"); dra.FilterTimeout == nil ||
			dra.FilterTimeout.Duration != 0 {
			t.Errorf("%s: DRA gives up after %v", name, dra.FilterTimeout)
		}
		if args := argsFor[*config.DefaultPreemptionArgs](t, p,
			"DefaultPreemption"); args.MinCandidateNodesPercentage != 100 {
			t.Errorf("%s: preemption %+v", name, args)
		}
		if set := p.Plugins.PostFilter; len(set.Enabled) != 1 || set.Enabled[0].Name != coscheduling {
			t.Errorf("%s: PostFilter %+v", name, set)
		}
		if err := ValidatePlugins(cfg, registryWithGangs()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProfileThatSaysOtherwiseGetsItsWay(t *testing.T) {
	has := func(t *testing.T, body string, want, not []string) config.KubeSchedulerProfile {
		t.Helper()
		cfg := load(t, body)
		got := multiPoint(cfg.Profiles[0])
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s is missing from %v", name, got)
			}
		}
		for _, name := range not {
			if slices.Contains(got, name) {
				t.Errorf("%s is among %v", name, got)
			}
		}
		if err := ValidatePlugins(cfg, registryWithGangs()); err != nil {
			t.Error(err)
		}
		return cfg.Profiles[0]
	}
	t.Run("all disabled: only what is listed", func(t *testing.T) {
		p := has(
			t,
			`profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}]`,
			nil,
			nil,
		)
		if got := multiPoint(p); !slices.Equal(got, []string{"PrioritySort", "DefaultBinder"}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("without gangs PrioritySort stays", func(t *testing.T) {
		has(t, `profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}]}}}]`,
			[]string{"PrioritySort", "DefaultPreemption"}, []string{"Coscheduling"})
	})
	t.Run("an in-tree plugin disabled", func(t *testing.T) {
		has(t, `profiles: [{plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}}]`,
			[]string{"Coscheduling", "DefaultPreemption"}, []string{"ImageLocality", "PrioritySort"})
	})
	t.Run("Coscheduling listed stands where listed, once", func(t *testing.T) {
		p := has(t, `profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}, {name: NodeName}]}}}]`, nil,
			[]string{"PrioritySort"})
		if got := strings.Count(strings.Join(multiPoint(p), " "), "Coscheduling"); got != 1 {
			t.Errorf("Coscheduling is there %d times", got)
		}
	})
	t.Run("spread constraints", func(t *testing.T) {
		p := has(t, `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: System}}]}]`, nil, nil)
		if args := argsFor[*config.PodTopologySpreadArgs](t, p,
			"PodTopologySpread"); args.DefaultingType != config.SystemDefaulting {
			t.Errorf("%+v", args)
		}
		p = has(
			t,
			`profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]`,
			nil,
			nil,
		)
		if args := argsFor[*config.PodTopologySpreadArgs](t, p,
			"PodTopologySpread"); args.DefaultingType != config.ListDefaulting || len(args.DefaultConstraints) != 1 {
			t.Errorf("%+v", args)
		}
	})
	t.Run("percentages", func(t *testing.T) {
		cfg := load(
			t,
			"percentageOfNodesToScore: 0\nprofiles: [{schedulerName: a}, {schedulerName: b, "+
				"percentageOfNodesToScore: 30}]",
		)
		if a, b := *cfg.Profiles[0].PercentageOfNodesToScore, *cfg.Profiles[1].PercentageOfNodesToScore; a != 0 ||
			b != 30 {
			t.Errorf("%d%% and %d%%, want 0 and 30", a, b)
		}
	})
	t.Run("arguments of our plugins stay raw", func(t *testing.T) {
		p := has(t, `profiles: [{pluginConfig: [{name: Coscheduling, args: {b: 1, a: [x]}}]}]`, nil, nil)
		args := argsFor[*runtime.Unknown](t, p, "Coscheduling")
		var got struct {
			A []string `json:"a"`
			B int      `json:"b"`
		}
		if err := frameworkruntime.DecodeInto(args, &got); err != nil || got.B != 1 || len(got.A) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestConfigThatIsNotUnderstoodIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"nothing", "", "it is empty"},
		{"comments only", "# nothing\n", "Object 'Kind' is missing"},
		{"not YAML", "{", "yaml"},
		{"no kind", "a: b", "Object 'Kind' is missing"},
		{"another kind", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n",
			"it is a kubescheduler.config.k8s.io/v1, Kind=NodeAffinityArgs, not a KubeSchedulerConfiguration"},
		{"another version", "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
			`"kubescheduler.config.k8s.io/v1beta3"`},
		{"two documents", header + "---\n" + header, "it has 2 YAML documents"},
		{"unknown field", header + "percentageOfNodes: 5", `unknown field "percentageOfNodes"`},
		{"unknown field deep down", header + "profiles: [{plugins: {scores: {}}}]",
			`unknown field "profiles[0].plugins.scores"`},
		{"repeated field", header + "parallelism: 1\nparallelism: 2", `key "parallelism" already set`},
		{"wrong type", header + "parallelism: many", "parallelism"},
		{"unknown argument", header + `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoring: 1}}]}]`,
			`decoding args for plugin NodeResourcesFit: strict decoding error: unknown field "scoring"`},
		{"argument out of range",
			header + `profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]`,
			"profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101"},
		{"arguments of another plugin",
			header + `profiles: [{pluginConfig: [{name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}}]}]`,
			"args for plugin InterPodAffinity were not of type InterPodAffinityArgs.kubescheduler.config.k8s.io"},
		{"repeated arguments",
			header + `profiles: [{pluginConfig: [{name: InterPodAffinity, args: {}}, {name: InterPodAffinity, args: {}}]}]`,
			"profiles[0].pluginConfig[1]: Duplicate value"},
		{"percentage out of range", header + "percentageOfNodesToScore: 101",
			"percentageOfNodesToScore: Invalid value: 101"},
		{"two profiles of one name", header + "profiles: [{schedulerName: a}, {schedulerName: a}]",
			"profiles[1].schedulerName: Duplicate value"},
		{"profile without a name", header + "profiles: [{schedulerName: a}, {}]",
			"profiles[1].schedulerName: Required value"},
		{"different queue sorts",
			header + `profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, {schedulerName: b}]`, "queueSort"},
		{"an extender of no weight", header + "extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]",
			"extenders[0].weight: Invalid value: 0"},
		{"two binders",
			header + "extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]",
			"only one extender can implement bind"},
		{"an extender that is nowhere", header + "extenders: [{urlPrefix: 'x:1'}]",
			`extenders[0]: urlPrefix "x:1": want http`},
		{"an extender with a password", header + "extenders: [{urlPrefix: 'http://u:p@x'}]",
			"extenders[0]: urlPrefix is no URL, or one with a user"},
		{"an extender that goes back in time", header + "extenders: [{urlPrefix: 'http://x', httpTimeout: -1s}]",
			"extenders[0]: httpTimeout -1s is negative"},
		{"real time in DRA",
			header + `profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 5s}}]}]`,
			"profiles[0].pluginConfig: DynamicResources: filterTimeout 5s: it would end a search by the clock on the " +
				"wall"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadConfig([]byte(tt.data), "sched.yaml")
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "sched.yaml: ") {
				t.Errorf("error %v\nwant one with %q", err, tt.want)
			}
		})
	}
}

func TestConfigThatNamesUnknownPluginsIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"enabled", `profiles: [{schedulerName: x, plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]`,
			`profile "x": Score: enabled: plugin "NodeResourceFit" is not compiled into this program`},
		{"enabled by multiPoint", `profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]`,
			`multiPoint: enabled: plugin "Mine" is not compiled into this program`},
		{"disabled", `profiles: [{plugins: {filter: {disabled: [{name: NodeResourceFit}]}}}]`,
			`Filter: disabled: plugin "NodeResourceFit" is not compiled into this program`},
		{"disabled by multiPoint", `profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourceFit}]}}}]`,
			`multiPoint: disabled: plugin "NodeResourceFit" is not compiled into this program`},
		{"configured", `profiles: [{pluginConfig: [{name: NodeResourceFit, args: {}}]}]`,
			`pluginConfig: plugin "NodeResourceFit" is not compiled into this program`},
		{"the PostFilter of DynamicResources",
			`profiles: [{plugins: {postFilter: {enabled: [{name: DynamicResources}]}}}]`,
			`PostFilter: enabled: plugin "DynamicResources": its PostFilter picks by chance`},
		{"a point that is not run",
			`profiles: [{plugins: {podGroupPostFilter: {enabled: [{name: DynamicResources}]}}}]`,
			`PodGroupPostFilter: enabled: plugin "DynamicResources": this extension point is not run`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := ValidatePlugins(load(t, tt.body), registryWithGangs())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v\nwant one with %q", err, tt.want)
			}
		})
	}
	t.Run("disabling what upstream has and we do not is no mistake", func(t *testing.T) {
		cfg := load(
			t,
			`profiles: [{plugins: {postFilter: {disabled: [{name: TopologyPlacementGenerator}]}, multiPoint: {disabled: [{name: GangScheduling}]}}}]`,
		)
		if err := ValidatePlugins(cfg, registryWithGangs()); err != nil {
			t.Error(err)
		}
	})
}

func TestEncodedConfigReadsBackAsTheSame(t *testing.T) {
	for _, body := range []string{
		"",
		"percentageOfNodesToScore: 0\nparallelism: 3\npodInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 99",
		`profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeName}, {name: DefaultBinder}]}}}]`,
		`profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: NodeName}], enabled: [{name: NodeName}, {name: NodePorts, weight: 4}]}}}]`,
		`profiles: [{plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 9}, {name: ImageLocality}]}, filter: {disabled: [{name: NodePorts}]}}}]`,
		`profiles: [{schedulerName: a, pluginConfig: [{name: Coscheduling, args: {z: 1.50, a: {y: "<", x: 12345678901234567890}}}]},
           {schedulerName: b, percentageOfNodesToScore: 7, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}}}]}]`,
		`profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: System}}, {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}]}]`,
		"leaderElection: {leaderElect: false}\nenableProfiling: false\nclientConnection: {qps: 5.5, burst: 7}",
	} {
		first, err := EncodeConfig(load(t, body))
		if err != nil {
			t.Fatal(err)
		}
		again, err := LoadConfig(first, "log")
		if err != nil {
			t.Fatalf("%v\nin %s", err, first)
		}
		second, err := EncodeConfig(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Errorf("%s\nreads back as\n%s", first, second)
		}
		for i, p := range load(t, body).Profiles {
			if got := multiPoint(again.Profiles[i]); !slices.Equal(got, multiPoint(p)) {
				t.Errorf("plugins %v read back as %v", multiPoint(p), got)
			}
		}
	}
}

func TestEncodedConfigDoesNotDependOnHowItWasWritten(t *testing.T) {
	yaml := load(t, `profiles: [{pluginConfig: [{name: Coscheduling, args: {b: 1, a: 2}}]}]`)
	json, err := LoadConfig([]byte(`{"kind":"KubeSchedulerConfiguration","apiVersion":"kubescheduler.config.k8s.io/v1",
		"profiles":[{"pluginConfig":[{"args":{ "b" : 1, "a" : 2},"name":"Coscheduling"}]}]}`), "test.json")
	if err != nil {
		t.Fatal(err)
	}
	a, errA := EncodeConfig(yaml)
	b, errB := EncodeConfig(json)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s %v\n%s %v", a, errA, b, errB)
	}
}
