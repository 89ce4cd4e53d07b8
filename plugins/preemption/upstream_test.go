package preemption_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/framework"
)

// For single pods the node and the victims equal those of kube-scheduler's own plugin, in its own runtime, which may
// choose from all nodes. Where its answer is random, ours is one of its answers.
func TestForSinglePodsNodeAndVictimsAreUpstreams(t *testing.T) {
	metrics.Register()
	for _, groups := range []bool{false, true} {
		t.Run(fmt.Sprintf("groups %t", groups), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(
				t,
				utilfeature.DefaultFeatureGate,
				features.GenericWorkload,
				groups,
			)
			kinds := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				w := drawWorld(t, groups)
				w.build(mustOf(t))
				pod := drawPreemptor(t, w)
				ours := w.ask(pod)
				theirs := map[string]bool{}
				for range 5 {
					theirs[printed(w.askUpstream(t, pod, groups))] = true
				}
				// A choice between equals is random: sooner or later it is ours.
				for range 60 {
					if len(theirs) == 1 || theirs[printed(ours)] {
						break
					}
					theirs[printed(w.askUpstream(t, pod, groups))] = true
				}
				if !theirs[printed(ours)] {
					t.Fatalf("we answer %q, upstream one of %v\n%s", printed(ours), theirs, w.describe(pod))
				}
				kinds[kindOf(ours)]++
			})
			for _, kind := range []string{"fits", "not eligible", "preempts", "not helpful"} {
				if kinds[kind] < 3 {
					t.Errorf("only %d worlds are of the kind %q: %v", kinds[kind], kind, kinds)
				}
			}
		})
	}
}

func kindOf(v verdict) string {
	switch {
	case v.fits:
		return "fits"
	case v.victims != "":
		return "preempts"
	case v.why != "":
		return "not eligible"
	}
	return "not helpful"
}

func printed(v verdict) string {
	if v.fits {
		return "fits"
	}
	return fmt.Sprintf("node %q, victims %q", v.node, v.victims)
}

func (w *world) describe(pod *v1.Pod) string {
	var b strings.Builder
	one := func(p *v1.Pod) {
		fmt.Fprintf(
			&b,
			"pod %s priority %d on %q nominated %q %v app %s affinity %v spread %v ports %v deleted %v group %v "+
				"started %v\n",
			p.Name,
			ptr.Deref(p.Spec.Priority, 0),
			p.Spec.NodeName,
			p.Status.NominatedNodeName,
			p.Spec.Containers[0].Resources.Requests.Cpu(),
			p.Labels["app"],
			p.Spec.Affinity,
			len(p.Spec.TopologySpreadConstraints),
			len(p.Spec.Containers[0].Ports),
			p.DeletionTimestamp != nil,
			p.Spec.SchedulingGroup,
			p.Status.StartTime,
		)
	}
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "node %s %v cordoned %v\n", n.Name, n.Status.Allocatable, n.Spec.Unschedulable)
	}
	for _, g := range w.groups {
		fmt.Fprintf(&b, "group %s priority %d %v\n", g.Name, ptr.Deref(g.Spec.Priority, 0), g.Spec.DisruptionMode)
	}
	for _, p := range w.budgets {
		fmt.Fprintf(&b, "budget %v allows %d\n", p.Spec.Selector, p.Status.DisruptionsAllowed)
	}
	for _, p := range slices.Concat(w.pods, w.waiting) {
		one(p)
	}
	one(pod)
	return b.String()
}

// askUpstream does what kube-scheduler does, up to PostFilter.
func (w *world) askUpstream(t *rapid.T, pod *v1.Pod, groups bool) verdict {
	ctx, cancel := context.WithCancel(framework.WithoutLogger(context.Background()))
	defer cancel()
	must := mustOf(t)
	snapshot := cache.NewTestSnapshotWithPodGroups(w.pods, w.nodes, w.groups)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, b := range w.budgets {
		must(factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(b))
	}
	must(factory.Core().V1().Pods().Informer().GetIndexer().Add(pod))
	claims := assumecache.NewAssumeCache(
		klog.FromContext(ctx),
		factory.Resource().V1().ResourceClaims().Informer(),
		"ResourceClaim",
		"",
		nil,
	)
	tracker, err := resourceslicetracker.StartTracker(
		ctx,
		resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()},
	)
	must(err)
	cfg := mustConfig(must)
	for i := range cfg.Plugins.MultiPoint.Enabled {
		if cfg.Plugins.MultiPoint.Enabled[i].Name == defaultpreemption.Name {
			cfg.Plugins.MultiPoint.Enabled = slices.Delete(cfg.Plugins.MultiPoint.Enabled, i, i+1)
			break
		}
	}
	cfg.PluginConfig = slices.DeleteFunc(
		cfg.PluginConfig,
		func(c config.PluginConfig) bool { return c.Name == defaultpreemption.Name },
	)
	f, err := frameworkruntime.NewFramework(
		ctx,
		intree.NewInTreeRegistry(),
		&cfg,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPodNominator(
			w,
		),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithClientSet(fake.NewClientset()),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, tracker, factory)),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister()),
		),
		frameworkruntime.WithPodGroupManager(groupsOf{snapshot: snapshot}),
		frameworkruntime.WithLogger(klog.FromContext(ctx)),
	)
	must(err)
	plugin, err := defaultpreemption.New(
		ctx,
		&config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100},
		f,
		feature.Features{EnableGenericWorkload: groups},
	)
	must(err)
	state, statuses := upstream.NewCycleState(), upstream.NewDefaultNodeToStatus()
	if filterUpstream(ctx, f, snapshot, state, pod, statuses) {
		return verdict{fits: true}
	}
	return w.preemptUpstream(t, ctx, plugin, snapshot, state, pod, statuses)
}

// filterUpstream says whether the pod fits a node, and otherwise fills in why not.
func filterUpstream(
	ctx context.Context,
	f upstream.Framework,
	snapshot *cache.Snapshot,
	state fwk.CycleState,
	pod *v1.Pod,
	statuses *upstream.NodeToStatus,
) bool {
	result, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		statuses.SetAbsentNodesStatus(status)
		return false
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		panic(err)
	}
	fits := false
	for _, n := range nodes {
		if !result.AllNodes() && !result.NodeNames.Has(n.Node().Name) {
			continue
		}
		if status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, n); status.IsSuccess() {
			fits = true
		} else {
			statuses.Set(n.Node().Name, status)
		}
	}
	return fits
}

// preemptUpstream is kube-scheduler's evaluation (preemption.Evaluator.evaluate), step by step. Its victims are all
// pods that have to go. They include pods that are going already, which its execution skips.
func (w *world) preemptUpstream(
	t *rapid.T,
	ctx context.Context,
	plugin *defaultpreemption.DefaultPreemption,
	snapshot *cache.Snapshot,
	state fwk.CycleState,
	pod *v1.Pod,
	statuses *upstream.NodeToStatus,
) verdict {
	must := mustOf(t)
	if ok, why := plugin.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !ok {
		return verdict{why: why}
	}
	nodes, err := statuses.NodesForStatusCode(snapshot.NodeInfos(), fwk.Unschedulable)
	must(err)
	if len(nodes) == 0 {
		return verdict{}
	}
	offset, n := plugin.GetOffsetAndNumCandidates(int32(len(nodes)))
	candidates, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, nodes, w.budgets, offset, n)
	must(err)
	best := plugin.Evaluator.SelectCandidate(ctx, candidates)
	if best == nil {
		return verdict{}
	}
	var names []string
	for _, p := range best.Victims().Pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return verdict{node: best.Name(), victims: strings.Join(names, " ")}
}

// groupsOf is the PodGroupManager over a snapshot, of which the plugin asks for PodGroups only.
type groupsOf struct {
	fwk.PodGroupManager
	snapshot *cache.Snapshot
}

func (g groupsOf) PodGroups() fwk.PodGroupLister { return g.snapshot.PodGroups() }
