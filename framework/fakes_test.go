package framework

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"
)

// script has the answers of a fake plugin, and records its calls.
type script struct {
	name string
	log  *[]string

	preFilter       *fwk.Status
	preFilterResult *fwk.PreFilterResult
	filter          map[string]*fwk.Status // by node
	postFilter      *fwk.Status
	postFilterNode  string
	preScore        *fwk.Status
	score           map[string]int64 // by node
	scoreStatus     *fwk.Status
	normalize       func(fwk.NodeScoreList) *fwk.Status
	reserve         *fwk.Status
	permit          *fwk.Status
	permitTimeout   time.Duration
	preFlight       *fwk.Status
	preBind         *fwk.Status
	bind            *fwk.Status
	events          []fwk.ClusterEventWithHint
	eventsErr       error
}

func (s *script) note(what string) {
	if s.log != nil {
		*s.log = append(*s.log, s.name+"."+what)
	}
}

// bare is a plugin with a name only.
type bare struct{ *script }

func (p bare) Name() string { return p.name }

// The fakes, one per extension point; the tests embed them in one another.
type (
	sorter       struct{ bare }
	binder       struct{ bare }
	prefilter    struct{ bare }
	filterer     struct{ bare }
	postFilterer struct{ bare }
	preScorer    struct{ bare }
	scoring      struct{ bare }
	reserver     struct{ bare }
	permitter    struct{ bare }
	preBinder    struct{ bare }
)

func (p sorter) Less(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false }

func (p binder) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	p.note("Bind")
	return p.bind
}

func (p prefilter) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	p.note("PreFilter")
	return p.preFilterResult, p.preFilter
}

func (p prefilter) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p prefilter) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, add fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	p.note("AddPod " + add.GetPod().Name)
	return nil
}

func (p prefilter) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, remove fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	p.note("RemovePod " + remove.GetPod().Name)
	return nil
}

func (p filterer) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	p.note("Filter " + node.Node().Name)
	if s := p.filter[node.Node().Name]; s != nil {
		return s.Clone()
	}
	return nil
}

func (p postFilterer) PostFilter(context.Context, fwk.CycleState, *v1.Pod,
	fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.note("PostFilter")
	if p.postFilterNode == "" {
		return nil, p.postFilter
	}
	return upstream.NewPostFilterResultWithNominatedNode(p.postFilterNode), p.postFilter
}

func (p preScorer) PreScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.note(fmt.Sprintf("PreScore %d", len(nodes)))
	return p.preScore
}

func (p scoring) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p.note("Score " + node.Node().Name)
	return p.score[node.Node().Name], p.scoreStatus
}

func (p scoring) ScoreExtensions() fwk.ScoreExtensions {
	if p.normalize == nil {
		return nil
	}
	return p
}

func (p scoring) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	p.note("NormalizeScore")
	return p.normalize(scores)
}

func (p reserver) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	p.note("Reserve")
	return p.reserve
}

func (p reserver) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) { p.note("Unreserve") }

func (p permitter) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	p.note("Permit")
	return p.permit, p.permitTimeout
}

func (p preBinder) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	p.note("PreBindPreFlight")
	return nil, p.preFlight
}

func (p preBinder) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	p.note("PreBind")
	return p.preBind
}

// withEvents is a Filter plugin that registers events.
type withEvents struct{ filterer }

func (p withEvents) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return p.events, p.eventsErr
}

// table is a lister over nodes sorted by name.
type table struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (t *table) NodeInfos() fwk.NodeInfoLister { return t }

func (t *table) List() ([]fwk.NodeInfo, error) { return t.nodes, nil }

func (t *table) Get(name string) (fwk.NodeInfo, error) {
	for _, n := range t.nodes {
		if n.Node().Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q", name)
}

func nodesNamed(names ...string) *table {
	t := &table{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		info := upstream.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		t.nodes = append(t.nodes, info)
	}
	return t
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
}

func registryOf(plugins ...fwk.Plugin) Registry {
	r := frameworkruntime.Registry{}
	for _, p := range plugins {
		r[p.Name()] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
	}
	return Registry{Factories: r}
}

func enabled(names ...string) config.PluginSet {
	var set config.PluginSet
	for _, n := range names {
		set.Enabled = append(set.Enabled, config.Plugin{Name: n})
	}
	return set
}

// profileOf returns a profile in which the plugins run in the order given, after a sorter and a binder.
func profileOf(t *testing.T, world World, plugins ...fwk.Plugin) *Profile {
	t.Helper()
	plugins = append(plugins, sorter{bare{&script{name: "zz-sort"}}}, binder{bare{&script{name: "zz-bind"}}})
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name())
	}
	return mustProfile(t, world, &config.Plugins{MultiPoint: enabled(names...)}, plugins...)
}

func mustProfile(t *testing.T, world World, cfg *config.Plugins, plugins ...fwk.Plugin) *Profile {
	t.Helper()
	p, err := NewProfile(context.Background(), registryOf(plugins...), config.KubeSchedulerProfile{
		SchedulerName: "test", Plugins: cfg, PercentageOfNodesToScore: ptr.To[int32](100),
	}, world)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unschedulable(reasons ...string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, reasons...)
}

func unresolvable(reasons ...string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
}
