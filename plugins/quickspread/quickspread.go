// Package quickspread is kube-scheduler's PodTopologySpread, under its name, that does not count all pods of all nodes
// for every pod. Package topologycount keeps the counts from pod to pod. This package says which nodes and pods count,
// and computes from the counts what upstream computes. Hints, the constraints that the system has by default, and
// everything else, are answers of kube-scheduler's plugin. The refused nodes, the reasons and every score are the same:
// a test compares the two.
//
// In one case the answers differ: when pods of several domains are added or removed for a trial, as preemption does for
// a gang. Then upstream's answer depends on the order of a map. Here it is the answer of a count from the start.
//
// Start at PreFilter; question.go says which pods share counts, rules.go what counts, reading.go what follows for one
// pod's hard constraints (DoNotSchedule), scoring.go for its soft ones (ScheduleAnyway).
package quickspread

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// Spread is the plugin.
type Spread struct {
	*podtopologyspread.PodTopologySpread
	gates    gates
	defaults defaults
	system   bool // pods without constraints have the system's, and upstream's plugin answers for them
	lister   fwk.SharedLister
	ledger   *topologycount.Ledger
	key      []byte // memory of the next one
	rescaler topologycount.Rescaler
	sums     []float64 // memory of SurveyScore

	// The two refusals. The caller may name this plugin in it, and change nothing else.
	skewed, unlabeled *fwk.Status
}

// gates are the feature gates that have a say in constraints.
type gates struct {
	// off says that nodeAffinityPolicy and nodeTaintsPolicy are not heeded: upstream's plugin does everything itself.
	off            bool
	matchLabelKeys bool // they are heeded
	comparisons    bool // tolerations may compare numbers
	deferred       bool // a pod whose resize is deferred is not spread
}

func gatesAsTheyAre() gates {
	f := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return gates{
		off:            !f.EnableNodeInclusionPolicyInPodTopologySpread,
		matchLabelKeys: f.EnableMatchLabelKeysInPodTopologySpread,
		comparisons:    f.EnableTaintTolerationComparisonOperators,
		deferred:       f.EnableInPlacePodVerticalScalingSchedulerPreemption,
	}
}

var (
	_ fwk.PreFilterPlugin        = (*Spread)(nil)
	_ fwk.PreFilterExtensions    = (*Spread)(nil)
	_ fwk.FilterPlugin           = (*Spread)(nil)
	_ fwk.PreScorePlugin         = (*Spread)(nil)
	_ fwk.ScorePlugin            = (*Spread)(nil)
	_ fwk.ScoreExtensions        = (*Spread)(nil)
	_ fwk.EnqueueExtensions      = (*Spread)(nil)
	_ fwk.SignPlugin             = (*Spread)(nil)
	_ framework.Surveyor         = (*Spread)(nil)
	_ framework.ColumnNormalizer = (*Spread)(nil)
)

// New returns a factory that makes the plugin around the one that upstream's factory makes.
func New(upstream frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := upstream(ctx, args, h)
		if err != nil {
			return nil, err
		}
		spread, ok := plugin.(*podtopologyspread.PodTopologySpread)
		if !ok {
			return nil, fmt.Errorf("plugin %s is a %T", podtopologyspread.Name, plugin)
		}
		s := &Spread{
			PodTopologySpread: spread,
			gates:             gatesAsTheyAre(),
			lister:            h.SnapshotSharedLister(),
			ledger:            topologycount.ForProfile(h),
			skewed:            refusal(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch),
			unlabeled: refusal(fwk.UnschedulableAndUnresolvable,
				podtopologyspread.ErrReasonNodeLabelNotMatch),
		}
		a, ok := args.(*config.PodTopologySpreadArgs)
		if !ok {
			return nil, fmt.Errorf("arguments of plugin %s are a %T", podtopologyspread.Name, args)
		}
		if s.system = a.DefaultingType == config.SystemDefaulting; !s.system { // the system's are soft
			s.defaults = newDefaults(a.DefaultConstraints, h)
		}
		return s, nil
	}
}

// PreFilter implements fwk.PreFilterPlugin. If upstream's plugin has to answer, it answers in every later step of the
// pod's cycle: then there is no reading in the state.
func (s *Spread) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Delete(readingKey)
	if s.gates.off || s.gates.deferred && resource.IsPodResizeDeferred(pod) {
		return s.PodTopologySpread.PreFilter(ctx, state, pod, nodes)
	}
	q := question{pod: pod, gates: s.gates}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		q.constraints = thatAre(v1.DoNotSchedule, pod.Spec.TopologySpreadConstraints)
	} else {
		q.constraints, q.selector = s.defaults.of(pod, s.defaults.hard)
	}
	if len(q.constraints) == 0 {
		return s.PodTopologySpread.PreFilter(ctx, state, pod, nodes)
	}
	c, err := s.count(ctx, q, nodes)
	if err != nil {
		return s.PodTopologySpread.PreFilter(ctx, state, pod, nodes) // it reports the error in its own words
	}
	state.Write(readingKey, newReading(c, q))
	return nil, nil
}

// count returns the counts for the question. It fails if a selector is not valid.
func (s *Spread) count(ctx context.Context, q question, nodes []fwk.NodeInfo) (*topologycount.Counts, error) {
	if err := s.ledger.Update(nodes); err != nil {
		return nil, err
	}
	key, err := q.appendKey(s.key[:0])
	if err != nil {
		return nil, err
	}
	s.key = key
	c := s.ledger.Find(key)
	if c == nil {
		r, err := newRules(&q, klog.FromContext(ctx))
		if err != nil {
			return nil, err
		}
		if err := s.ledger.Learn(r.selectors()...); err != nil {
			return nil, err
		}
		c = s.ledger.Keep(key, r)
		r.addColumns(c)
	}
	s.ledger.Use(c)
	return c, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (s *Spread) PreFilterExtensions() fwk.PreFilterExtensions { return s }

// AddPod implements fwk.PreFilterExtensions.
func (s *Spread) AddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, add fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state)
	if r == nil {
		return s.PodTopologySpread.AddPod(ctx, state, pod, add, node)
	}
	r.change(add.GetPod(), node.Node(), +1)
	return nil
}

// RemovePod implements fwk.PreFilterExtensions.
func (s *Spread) RemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, remove fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state)
	if r == nil {
		return s.PodTopologySpread.RemovePod(ctx, state, pod, remove, node)
	}
	r.change(remove.GetPod(), node.Node(), -1)
	return nil
}

// Filter implements fwk.FilterPlugin.
func (s *Spread) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state)
	if r == nil {
		return s.PodTopologySpread.Filter(ctx, state, pod, node)
	}
	switch r.judge(node) {
	case tooMany:
		return s.skewed
	case noLabel:
		return s.unlabeled
	default:
		return nil
	}
}

// refusal is upstream's status of a node that the plugin refuses.
func refusal(code fwk.Code, reason string) *fwk.Status {
	return fwk.NewStatus(code, reason).WithPlugin(podtopologyspread.Name)
}
