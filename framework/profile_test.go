package framework

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

func set(enabledNames, disabledNames string) config.PluginSet {
	s := enabled(strings.Fields(enabledNames)...)
	s.Disabled = enabled(strings.Fields(disabledNames)...).Enabled
	return s
}

func scoringPlugins(names ...string) []fwk.Plugin {
	var out []fwk.Plugin
	for _, n := range names {
		out = append(out, scoring{bare{&script{name: n}}})
	}
	return append(out, sorter{bare{&script{name: "sort"}}}, binder{bare{&script{name: "bind"}}})
}

func TestMultiPointExpandsInUpstreamsOrder(t *testing.T) {
	tests := []struct {
		name         string
		multi, score config.PluginSet
		want         string
	}{
		{"multiPoint alone keeps its order", set("sort bind c a b", ""), set("", ""), "c a b"},
		{"the point's own come after multiPoint's", set("sort bind c a", ""), set("b", ""), "c a b"},
		{"restated ones come first, in the point's order", set("sort bind a b c", ""), set("d c a", ""), "c a b d"},
		{"one disabled for the point is left out", set("sort bind a b c", ""), set("", "b"), "a c"},
		{"disabled for the point and enabled there: stands where the point puts it", set("sort bind a b", ""),
			set("a", "a"), "b a"},
		{"all disabled for the point: only its own", set("sort bind a b", ""), set("c a", "*"), "c a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustProfile(t, World{}, &config.Plugins{MultiPoint: tt.multi, Score: tt.score},
				scoringPlugins("a", "b", "c", "d")...)
			if got := strings.Join(p.Plugins(Score), " "); got != tt.want {
				t.Errorf("Score runs %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProfileThatCannotRunIsRefused(t *testing.T) {
	tests := []struct {
		name string
		cfg  config.Plugins
		args []config.PluginConfig
		want string
	}{
		{"plugin that does not exist", config.Plugins{MultiPoint: enabled("sort", "bind", "nope")}, nil,
			`profile "test": multiPoint: enabled: plugin "nope" is not compiled into this program`},
		{"disabled plugin that does not exist", config.Plugins{MultiPoint: enabled("sort", "bind"),
			Filter: set("", "nope")}, nil,
			`Filter: disabled: plugin "nope" is not compiled into this program`},
		{"plugin at a point it does not have", config.Plugins{MultiPoint: enabled("sort", "bind"),
			Filter: enabled("a")}, nil,
			`plugin "a" is enabled for Filter, which it does not implement`},
		{"enabled twice", config.Plugins{MultiPoint: enabled("sort", "bind"), Score: enabled("a", "a")}, nil,
			`plugin "a" is enabled twice for Score`},
		{"enabled twice by multiPoint", config.Plugins{MultiPoint: enabled("sort", "bind", "a", "a")}, nil,
			`plugin "a" is enabled twice for Score by multiPoint`},
		{"no QueueSort", config.Plugins{MultiPoint: enabled("bind")}, nil,
			"exactly one QueueSort plugin is needed, it has 0"},
		{
			"two QueueSorts",
			config.Plugins{MultiPoint: enabled("sort", "sort2", "bind")},
			nil,
			"exactly one QueueSort plugin is needed, it has 2 [sort sort2]: disable the others under plugins.queueSort",
		},
		{"no Bind", config.Plugins{MultiPoint: enabled("sort")}, nil, "at least one Bind plugin is needed"},
		{"repeated arguments", config.Plugins{MultiPoint: enabled("sort", "bind")},
			[]config.PluginConfig{{Name: "a"}, {Name: "a"}}, `repeated config for plugin "a"`},
		{"arguments of no plugin", config.Plugins{MultiPoint: enabled("sort", "bind")},
			[]config.PluginConfig{{Name: "misspelt"}},
			`pluginConfig: plugin "misspelt" is not compiled into this program`},
		{"plugin that does not start", config.Plugins{MultiPoint: enabled("sort", "bind", "broken")}, nil,
			`start plugin "broken": no arguments`},
		{"plugin of another name", config.Plugins{MultiPoint: enabled("sort", "bind", "alias")}, nil,
			`plugin "alias" calls itself "a"`},
		{"point that is not run", config.Plugins{MultiPoint: enabled("sort", "bind"), PlacementScore: enabled("a")},
			nil,
			`PlacementScore: enabled: plugin "a": this extension point is not run`},
	}
	plugins := append(scoringPlugins("a", "b"), sorter{bare{&script{name: "sort2"}}})
	registry := registryOf(plugins...)
	registry.Factories["alias"] = registry.Factories["a"]
	registry.Factories["broken"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return nil, errors.New("no arguments")
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewProfile(context.Background(), registry, config.KubeSchedulerProfile{
				SchedulerName: "test", Plugins: &tt.cfg, PluginConfig: tt.args,
			}, World{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestWeightsAreOneByDefaultAndThePointsOwnWin(t *testing.T) {
	multi := config.PluginSet{Enabled: []config.Plugin{{Name: "sort"}, {Name: "bind"}, {Name: "a", Weight: 3},
		{Name: "b", Weight: 5}, {Name: "c"}}}
	own := config.PluginSet{Enabled: []config.Plugin{{Name: "b", Weight: 7}}}
	p := mustProfile(t, World{}, &config.Plugins{MultiPoint: multi, Score: own}, scoringPlugins("a", "b", "c")...)
	got := map[string]int64{}
	for _, s := range p.score {
		got[s.name] = s.weight
	}
	if got["a"] != 3 || got["b"] != 7 || got["c"] != 1 {
		t.Errorf("weights %v, want a 3, b 7, c 1", got)
	}
}

func TestWeightsWhoseTotalCouldOverflowAreRefused(t *testing.T) {
	// Weights are int32: NewProfile would need 40 million plugins for this.
	if _, err := addWeight(fwk.MaxTotalScore-99, 1); err == nil {
		t.Error("a total beyond int64 is accepted")
	}
	if total, err := addWeight(fwk.MaxTotalScore-100, 1); err != nil || total != fwk.MaxTotalScore {
		t.Errorf("the largest total gives %d, %v", total, err)
	}
}

func TestPluginsStartInTheOrderOfTheirNames(t *testing.T) {
	var order []string
	registry := registryOf(scoringPlugins("a", "b", "c", "d", "e", "f")...)
	for name, factory := range registry.Factories {
		registry.Factories[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			order = append(order, name)
			return factory(ctx, args, h)
		}
	}
	_, err := NewProfile(context.Background(), registry, config.KubeSchedulerProfile{
		Plugins: &config.Plugins{MultiPoint: enabled("f", "sort", "a", "bind", "e", "b")},
	}, World{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "bind", "e", "f", "sort"}; !slices.Equal(order, want) {
		t.Errorf("started %v, want %v", order, want)
	}
}

func TestHintsKeepWhatPluginsSay(t *testing.T) {
	node := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	p := profileOf(t, World{},
		withEvents{filterer{bare{&script{name: "picky", events: []fwk.ClusterEventWithHint{{Event: node}}}}}},
		withEvents{filterer{bare{&script{name: "never"}}}},
		filterer{bare{&script{name: "silent"}}},
		scoring{bare{&script{name: "scorer"}}},
	)
	hints, err := p.Hints()
	if err != nil {
		t.Fatal(err)
	}
	if got := hints["picky"]; len(got) != 1 || got[0].Event != node || got[0].QueueingHintFn != nil {
		t.Errorf("picky waits for %v", got)
	}
	if got, ok := hints["never"]; !ok || len(got) != 0 {
		t.Errorf("never waits for %v (%t), want an empty list", got, ok)
	}
	if got := hints["silent"]; len(got) != len(upstream.UnrollWildCardResource()) {
		t.Errorf("silent waits for %d events, want all %d", len(got), len(upstream.UnrollWildCardResource()))
	}
	if _, ok := hints["scorer"]; ok {
		t.Error("a plugin that can refuse no pod waits for events")
	}

	bad := profileOf(t, World{}, withEvents{filterer{bare{&script{name: "bad", eventsErr: errors.New("boom")}}}})
	if _, err := bad.Hints(); err == nil || !strings.Contains(err.Error(), `events of plugin "bad": boom`) {
		t.Errorf("error %v", err)
	}
}

func TestProfileNamesItsPluginsByPoint(t *testing.T) {
	p := profileOf(t, World{}, filterer{bare{&script{name: "f"}}}, scoring{bare{&script{name: "s"}}})
	if !p.Has(Filter, "f") || p.Has(Score, "f") || !p.Has(Score, "s") || p.Has(Filter, "nope") {
		t.Errorf("Filter %v, Score %v", p.Plugins(Filter), p.Plugins(Score))
	}
	if p.Plugin("f") == nil || p.Plugin("nope") != nil {
		t.Error("Plugin finds the wrong ones")
	}
	if p.Name() != "test" || p.PercentageOfNodesToScore() != 100 || p.Less() == nil {
		t.Error("name, percentage or order is missing")
	}
}
