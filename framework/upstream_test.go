package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// The profiles under which both runtimes are compared. They have no gang plugin, because upstream does not.
var comparedConfigs = map[string]string{
	"sample":  `profiles: [{percentageOfNodesToScore: 70, plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}]}}}]`,
	"default": `profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}]}}}]`,
	"tuned": `profiles: [{
		plugins: {
			multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}], enabled: [{name: NodeResourcesFit, weight: 7}, {name: InterPodAffinity, weight: 5}]},
			filter: {disabled: [{name: NodePorts}]},
			score: {disabled: [{name: ImageLocality}], enabled: [{name: TaintToleration, weight: 11}]}},
		pluginConfig: [
			{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: example.com/gpu, weight: 3}, {name: cpu, weight: 1}]}}},
			{name: NodeResourcesBalancedAllocation, args: {resources: [{name: example.com/gpu, weight: 1}, {name: cpu, weight: 1}]}},
			{name: InterPodAffinity, args: {hardPodAffinityWeight: 40, ignorePreferredTermsOfExistingPods: true}},
			{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}},
			{name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 9, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}}]}]`,
}

const (
	worldsPerConfig = 250
	podsPerWorld    = 10 // 2 × 250 × 10 = 5,000 cases
)

// pair is the same profile in both runtimes over the same world.
type pair struct {
	ours   *framework.Profile
	theirs upstream.Framework
	world  *currentWorld
}

// currentWorld is a world that the test replaces while plugins keep a reference to it.
type currentWorld struct {
	fwk.SharedLister
	nominated map[string][]fwk.PodInfo
}

func (w *currentWorld) NominatedPodsForNode(node string) []fwk.PodInfo { return w.nominated[node] }

func (w *currentWorld) AnyNominated() bool { return len(w.nominated) > 0 }

func (w *currentWorld) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

func (w *currentWorld) DeleteNominatedPodIfExists(*v1.Pod) {}

func (w *currentWorld) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

func newPair(tb testing.TB, config string) *pair {
	tb.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(framework.WithoutLogger(context.Background()))
	tb.Cleanup(cancel)
	cfg, err := framework.LoadConfig(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
			strings.ReplaceAll(config, "\t", " ")),
		"test.yaml",
	)
	if err != nil {
		tb.Fatal(err)
	}
	p := &pair{world: &currentWorld{}}

	factory, dra := newInformers(ctx, tb)
	p.ours, err = framework.NewProfile(ctx, plugins.NewRegistry(), cfg.Profiles[0], framework.World{
		Lister: p.world, Nominator: p.world, Informers: factory, DRA: dra,
		CSI: nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister()),
	})
	if err != nil {
		tb.Fatal(err)
	}
	factory, dra = newInformers(ctx, tb)
	p.theirs, err = frameworkruntime.NewFramework(
		ctx,
		upstreamRegistry().Factories,
		&cfg.Profiles[0],
		frameworkruntime.WithSnapshotSharedLister(p.world),
		frameworkruntime.WithPodNominator(p.world),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(dra),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister()),
		),
		frameworkruntime.WithLogger(klog.FromContext(ctx)),
	)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// newInformers returns informers that know two namespaces and are never started.
func newInformers(ctx context.Context, tb testing.TB) (informers.SharedInformerFactory, fwk.SharedDRAManager) {
	tb.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, ns := range namespaces {
		err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(&v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": ns}},
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(),
		"ResourceClaim", "", nil)
	slices, err := resourceslicetracker.StartTracker(ctx,
		resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	if err != nil {
		tb.Fatal(err)
	}
	return factory, dynamicresources.NewDRAManager(ctx, claims, slices, factory)
}

// answer is a runtime's result for one pod, in a form that can be compared.
type answer struct {
	PreFilter string            // status code and reasons, if the pod was refused as a whole
	Refused   map[string]string // by node: plugin, code, sorted reasons
	Scores    map[string]int64  // by feasible node
	ByPlugin  map[string]string // by feasible node: raw and weighted score of every plugin
	Node      string
	Blamed    []string
	Counts    map[string]int64 // how many nodes a plugin refused for a reason
}

func describe(status *fwk.Status) string {
	return fmt.Sprintf("%s %s %q", status.Plugin(), status.Code(), slices.Sorted(slices.Values(status.Reasons())))
}

// askUpstream does the work of kube-scheduler's schedulePod, over all nodes.
func askUpstream(t *testing.T, f upstream.Framework, world *currentWorld, pod *v1.Pod) answer {
	t.Helper()
	ctx, state := framework.WithoutLogger(context.Background()), upstream.NewCycleState()
	out := answer{Refused: map[string]string{}, Scores: map[string]int64{}, ByPlugin: map[string]string{},
		Counts: map[string]int64{}}
	nodes, err := world.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	result, status, narrowing := f.RunPreFilterPlugins(ctx, state, pod)
	diagnosis := upstream.Diagnosis{UnschedulablePlugins: narrowing, NodeToStatus: upstream.NewDefaultNodeToStatus()}
	if !status.IsSuccess() {
		diagnosis.AddPluginStatus(status)
		out.PreFilter, out.Blamed = describe(status), sets.List(diagnosis.UnschedulablePlugins)
		return out
	}
	// The nominated node comes first, whether or not PreFilter left it.
	isNominated := func(n fwk.NodeInfo) bool { return n.Node().Name == pod.Status.NominatedNodeName }
	var feasible []fwk.NodeInfo
	refuse := func(node fwk.NodeInfo, status *fwk.Status) {
		diagnosis.AddPluginStatus(status)
		out.Refused[node.Node().Name] = describe(status)
		for _, reason := range status.Reasons() {
			out.Counts[status.Plugin()+" "+status.Code().String()+" "+reason]++
		}
	}
	if i := slices.IndexFunc(nodes, isNominated); i >= 0 {
		if status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, nodes[i]); status.IsSuccess() {
			feasible = nodes[i : i+1]
		} else {
			refuse(nodes[i], status)
		}
	}
	for _, node := range nodes {
		if len(feasible) == 1 && isNominated(feasible[0]) || isNominated(node) ||
			!result.AllNodes() && !result.NodeNames.Has(node.Node().Name) {
			continue
		}
		if status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); status.IsSuccess() {
			feasible = append(feasible, node)
		} else {
			refuse(node, status)
		}
	}
	if len(feasible) == 0 {
		out.Blamed = sets.List(diagnosis.UnschedulablePlugins)
		return out
	}
	if len(feasible) == 1 {
		out.Node = feasible[0].Node().Name
		out.Scores[out.Node], out.ByPlugin[out.Node] = 0, ""
		return out
	}
	if status := f.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	scores, status := f.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	for _, s := range scores {
		out.Scores[s.Name] = s.TotalScore
		for i := range s.Scores {
			out.ByPlugin[s.Name] += fmt.Sprintf("%s %d %d; ", s.Scores[i].Name, s.RawScores[i].Score, s.Scores[i].Score)
		}
	}
	out.Node = slices.MinFunc(slices.Sorted(maps.Keys(out.Scores)), func(a, b string) int {
		return int(out.Scores[b] - out.Scores[a])
	})
	return out
}

func askUs(t *testing.T, p *framework.Profile, pod *v1.Pod) answer {
	t.Helper()
	ctx := framework.WithoutLogger(context.Background())
	trace := &framework.Trace{}
	placement := p.Place(ctx, framework.NewCycleState(), pod, 0, trace)
	if placement.Status.IsError() {
		t.Fatal(placement.Status.AsError())
	}
	out := answer{Node: placement.Node, Refused: map[string]string{}, Scores: map[string]int64{},
		ByPlugin: map[string]string{}, Counts: map[string]int64{}}
	if placement.Status != nil {
		out.Blamed = placement.Plugins
		if placement.Evaluated == 0 && len(trace.Refused) == 0 && placement.Status.Message() != "no node fits the pod" {
			out.PreFilter = describe(placement.Status)
			return out
		}
	}
	for _, r := range trace.Refused {
		out.Refused[r.Node] = fmt.Sprintf("%s %s %q", r.Plugin, r.Code, slices.Sorted(slices.Values(r.Reasons)))
	}
	for _, s := range trace.Scored {
		out.Scores[s.Node] = s.Total
		for _, ps := range s.Plugins {
			out.ByPlugin[s.Node] += fmt.Sprintf("%s %d %d; ", ps.Plugin, ps.Raw, ps.Weighted)
		}
		if len(s.Plugins) == 0 {
			out.ByPlugin[s.Node] = ""
		}
	}
	for _, r := range placement.Rejections {
		if !strings.HasPrefix(r.Reason, "node(s) didn't satisfy plugin ") { // PreFilter's, which has no status per node
			out.Counts[r.Plugin+" "+r.Code+" "+r.Reason] += r.Nodes
		}
	}
	checkAgainstItself(t, p, pod, placement, trace)
	return out
}

// checkAgainstItself checks that the trace changes nothing and that the numbers in the placement hold.
func checkAgainstItself(t *testing.T, p *framework.Profile, pod *v1.Pod, placement framework.Placement,
	trace *framework.Trace) {
	t.Helper()
	again := p.Place(framework.WithoutLogger(context.Background()), framework.NewCycleState(), pod, 0, nil)
	facts := func(p framework.Placement) []any {
		return []any{p.Node, p.Score, p.Evaluated, p.Feasible, p.Next, p.Rejections, p.Plugins, p.PendingPlugins}
	}
	if diff := cmp.Diff(facts(placement), facts(again)); diff != "" {
		t.Errorf("with and without a trace:\n%s", diff)
	}
	if winner, ok := trace.Winner(); ok && (winner.Node != placement.Node || winner.Total != placement.Score) {
		t.Errorf("trace has %s with %d win, the placement %s with %d", winner.Node, winner.Total, placement.Node,
			placement.Score)
	}
	if placement.Feasible != int64(len(trace.Scored)) ||
		placement.Evaluated-placement.Feasible != int64(len(trace.Refused)) {
		t.Errorf("%d evaluated, %d feasible; traced %d refused, %d scored",
			placement.Evaluated, placement.Feasible, len(trace.Refused), len(trace.Scored))
	}
}

func TestFeasibleNodesAndScoresAreUpstreams(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(comparedConfigs)) {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, comparedConfigs[name])
			seen := map[string]int{}
			for seed := range uint64(worldsPerConfig) {
				g := &generator{rand.New(rand.NewPCG(seed, 20260102))}
				nodes, pods := g.world()
				p.world.SharedLister = cache.NewSnapshot(pods, nodes)
				p.world.nominated = g.nominations(nodes)
				for i := range podsPerWorld {
					pod := g.pod(fmt.Sprintf("new-%d", i))
					if g.oneIn(8) {
						pod.Status.NominatedNodeName = nodes[g.IntN(len(nodes))].Name
					}
					theirs, ours := askUpstream(t, p.theirs, p.world, pod), askUs(t, p.ours, pod)
					count(seen, theirs)
					if diff := cmp.Diff(theirs, ours); diff != "" || t.Failed() {
						t.Fatalf("world %d, pod %d: upstream (-) and we (+) differ:\n%s\n%s", seed, i, diff,
							printCase(pod, nodes, pods))
					}
				}
			}
			checkVariety(t, seen)
		})
	}
}

// count counts the kinds of answers.
func count(seen map[string]int, a answer) {
	switch {
	case a.PreFilter != "":
		seen["refused as a whole"]++
	case len(a.Scores) == 0:
		seen["fits nowhere"]++
	case len(a.Scores) == 1:
		seen["fits one node"]++
	default:
		seen["scored"]++
	}
	for _, why := range a.Refused {
		plugin, _, _ := strings.Cut(why, " ")
		seen["refused by "+plugin]++
	}
	for _, score := range a.ByPlugin {
		for part := range strings.SplitSeq(score, "; ") {
			if f := strings.Fields(part); len(f) == 3 && f[1] != "0" {
				seen["rated by "+f[0]]++
			}
		}
	}
}

// checkVariety guards against a generator whose cases are all similar.
func checkVariety(t *testing.T, seen map[string]int) {
	t.Helper()
	for _, kind := range []string{
		"scored", "fits one node", "fits nowhere",
		"refused by NodeResourcesFit", "refused by TaintToleration", "refused by NodeAffinity",
		"refused by NodeUnschedulable",
		"refused by PodTopologySpread", "refused by InterPodAffinity",
		"rated by NodeResourcesFit", "rated by TaintToleration", "rated by NodeAffinity", "rated by PodTopologySpread",
		"rated by InterPodAffinity", "rated by NodeResourcesBalancedAllocation",
	} {
		if seen[kind] < 20 {
			t.Errorf("only %d × %q: %v", seen[kind], kind, seen)
		}
	}
}

func printCase(pod *v1.Pod, nodes []*v1.Node, pods []*v1.Pod) string {
	var b strings.Builder
	show := func(what string, o any) {
		data, err := json.Marshal(o)
		if err != nil {
			data = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s %s\n", what, data)
	}
	show("pod", pod)
	for _, n := range nodes {
		show("node", n)
	}
	for _, p := range pods {
		show("existing", p)
	}
	return b.String()
}

// upstreamRegistry is our registry, with kube-scheduler's own plugins instead of our faster ones.
func upstreamRegistry() framework.Registry {
	registry := plugins.NewRegistry()
	for name, factory := range intree.NewInTreeRegistry() {
		if _, ok := registry.Factories[name]; ok {
			registry.Factories[name] = factory
		}
	}
	return registry
}
