package framework

import (
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// ExtensionPoint names a place in the cycle where plugins are called.
type ExtensionPoint string

// The extension points. Filter includes PreFilter's AddPod and RemovePod, Score includes NormalizeScore,
// Reserve includes Unreserve.
const (
	PreEnqueue ExtensionPoint = "PreEnqueue"
	QueueSort  ExtensionPoint = "QueueSort"
	PreFilter  ExtensionPoint = "PreFilter"
	Filter     ExtensionPoint = "Filter"
	PostFilter ExtensionPoint = "PostFilter"
	PreScore   ExtensionPoint = "PreScore"
	Score      ExtensionPoint = "Score"
	Reserve    ExtensionPoint = "Reserve"
	Permit     ExtensionPoint = "Permit"
	PreBind    ExtensionPoint = "PreBind"
	Bind       ExtensionPoint = "Bind"
	PostBind   ExtensionPoint = "PostBind"
)

// pluginSets returns the plugin sets of a profile by extension point, in the order in which a cycle reaches the points.
func pluginSets(p *config.Plugins) []namedSet {
	return []namedSet{
		{PreEnqueue, &p.PreEnqueue},
		{QueueSort, &p.QueueSort},
		{PreFilter, &p.PreFilter},
		{Filter, &p.Filter},
		{PostFilter, &p.PostFilter},
		{PreScore, &p.PreScore},
		{Score, &p.Score},
		{Reserve, &p.Reserve},
		{Permit, &p.Permit},
		{PreBind, &p.PreBind},
		{Bind, &p.Bind},
		{PostBind, &p.PostBind},
	}
}

// unrunSets returns the extension points of kube-scheduler's own pod group cycle. This framework does not run them.
func unrunSets(p *config.Plugins) []namedSet {
	return []namedSet{
		{"PlacementGenerate", &p.PlacementGenerate},
		{"PlacementScore", &p.PlacementScore},
		{"PodGroupPostFilter", &p.PodGroupPostFilter},
	}
}

type namedSet struct {
	point ExtensionPoint
	set   *config.PluginSet
}

// pluginTable holds the instances of plugins by name, and the MultiPoint list. pick selects from it.
type pluginTable struct {
	built map[string]fwk.Plugin
	multi []config.Plugin
}

// pick returns the plugins of one extension point in the order in which they run. The rules are kube-scheduler's:
//
//  1. first the plugins that both MultiPoint and the point's own list enable, in the order of the point's list: the
//     user listed them again to override something;
//  2. then the other plugins of MultiPoint that implement this extension point and are not disabled for it;
//  3. then the rest of the point's own list.
//
// If "*" is disabled for the point, only its own list runs, in its own order.
func pick[T fwk.Plugin](t pluginTable, point ExtensionPoint, set config.PluginSet) ([]T, error) {
	var own []string
	for _, e := range set.Enabled {
		plugin, ok := t.built[e.Name]
		if !ok {
			return nil, fmt.Errorf("%s plugin %q does not exist", point, e.Name)
		}
		if _, ok := plugin.(T); !ok {
			return nil, fmt.Errorf("plugin %q is enabled for %s, which it does not implement", e.Name, point)
		}
		if slices.Contains(own, e.Name) {
			return nil, fmt.Errorf("plugin %q is enabled twice for %s", e.Name, point)
		}
		own = append(own, e.Name)
	}
	if named(set.Disabled, "*") || len(t.multi) == 0 {
		return cast[T](t, own), nil
	}
	var fromMulti, overridden []string
	for _, e := range t.multi {
		if _, ok := t.built[e.Name].(T); !ok || named(set.Disabled, e.Name) {
			continue
		}
		switch {
		case slices.Contains(own, e.Name):
			overridden = append(overridden, e.Name)
		case slices.Contains(fromMulti, e.Name):
			return nil, fmt.Errorf("plugin %q is enabled twice for %s by multiPoint", e.Name, point)
		default:
			fromMulti = append(fromMulti, e.Name)
		}
	}
	var first, last []string
	for _, name := range own {
		if slices.Contains(overridden, name) {
			first = append(first, name)
		} else {
			last = append(last, name)
		}
	}
	return cast[T](t, slices.Concat(first, fromMulti, last)), nil
}

func cast[T fwk.Plugin](t pluginTable, names []string) []T {
	out := make([]T, len(names))
	for i, name := range names {
		out[i] = t.built[name].(T)
	}
	return out
}

func named(list []config.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p config.Plugin) bool { return p.Name == name })
}
