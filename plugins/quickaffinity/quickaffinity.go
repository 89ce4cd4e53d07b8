// Package quickaffinity is kube-scheduler's InterPodAffinity, under its name, that does not walk over all pods of all
// nodes for every pod. Package topologycount keeps the counts from pod to pod. This package says which pods count for
// which term, and computes from the counts what upstream computes. Hints, and everything else, are answers of
// kube-scheduler's plugin. The refused nodes, the reasons and every score are the same: a test compares the two.
//
// Start at PreFilter; question.go says what counts, reading.go what follows for one pod, namespaces.go when a change of
// a namespace makes counts invalid.
package quickaffinity

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// Affinity is the plugin.
type Affinity struct {
	*interpodaffinity.InterPodAffinity
	args     config.InterPodAffinityArgs
	off      bool // upstream's plugin does everything itself
	deferred bool // upstream's plugin answers for a pod whose resize is deferred
	lister   fwk.SharedLister

	ledger     *topologycount.Ledger
	namespaces namespaces
	last       asked
	key        []byte // memory of appendKey
	rescaler   topologycount.Rescaler

	// The refusals, by verdict. The caller may name this plugin in it, and change nothing else.
	refusals [unwelcome + 1]*fwk.Status
}

// asked is the pod that was asked about last, and its counts.
type asked struct {
	pod    *v1.Pod
	counts *topologycount.Counts
}

var (
	_ fwk.PreFilterPlugin        = (*Affinity)(nil)
	_ fwk.PreFilterExtensions    = (*Affinity)(nil)
	_ fwk.FilterPlugin           = (*Affinity)(nil)
	_ fwk.PreScorePlugin         = (*Affinity)(nil)
	_ fwk.ScorePlugin            = (*Affinity)(nil)
	_ fwk.ScoreExtensions        = (*Affinity)(nil)
	_ fwk.EnqueueExtensions      = (*Affinity)(nil)
	_ fwk.SignPlugin             = (*Affinity)(nil)
	_ framework.Surveyor         = (*Affinity)(nil)
	_ framework.ColumnNormalizer = (*Affinity)(nil)
)

// New returns a factory that makes the plugin around the one that upstream's factory makes.
func New(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := factory(ctx, args, h)
		if err != nil {
			return nil, err
		}
		affinity, ok := plugin.(*interpodaffinity.InterPodAffinity)
		if !ok {
			return nil, fmt.Errorf("plugin %s is a %T", interpodaffinity.Name, plugin)
		}
		given, ok := args.(*config.InterPodAffinityArgs)
		if !ok {
			return nil, fmt.Errorf("arguments of plugin %s are a %T", interpodaffinity.Name, args)
		}
		gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
		a := &Affinity{
			InterPodAffinity: affinity,
			args:             *given,
			// Under this gate upstream looks only at the pods on the node itself.
			off:      gates.EnableInterPodAffinityHostnameFastPath,
			deferred: gates.EnableInPlacePodVerticalScalingSchedulerPreemption,
			lister:   h.SnapshotSharedLister(),
			ledger:   topologycount.ForProfile(h),
		}
		informer := h.SharedInformerFactory().Core().V1().Namespaces()
		a.namespaces.lister = informer.Lister()
		if a.namespaces.news, err = watch(ctx, informer.Informer()); err != nil {
			return nil, fmt.Errorf("plugin %s: watch namespaces: %w", interpodaffinity.Name, err)
		}
		a.refusals = [...]*fwk.Status{
			notAttracted: refusal(fwk.UnschedulableAndUnresolvable, interpodaffinity.ErrReasonAffinityRulesNotMatch),
			repelled:     refusal(fwk.Unschedulable, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch),
			unwelcome:    refusal(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch),
		}
		return a, nil
	}
}

// refusal is upstream's status of a node that the plugin refuses.
func refusal(code fwk.Code, reason string) *fwk.Status {
	return fwk.NewStatus(code, reason).WithPlugin(interpodaffinity.Name)
}

// skip is the answer when the plugin has nothing to do for the pod. It must not be changed.
var skip = fwk.NewStatus(fwk.Skip)

// PreFilter implements fwk.PreFilterPlugin. If upstream's plugin has to answer, it answers in every later step of the
// pod's cycle: then there is no reading in the state.
func (a *Affinity) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Delete(filterKey)
	if a.deferred && resource.IsPodResizeDeferred(pod) {
		return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	c, idle := a.ask(pod, nodes)
	switch {
	case idle:
		return nil, skip
	case c == nil:
		return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	repels := func(c topologycount.Column) bool { return c.Role == existing && !c.Empty() }
	if !c.Question.(*question).demands() && !slices.ContainsFunc(c.Columns(), repels) {
		return nil, skip
	}
	state.Write(filterKey, newReading(c, pod, forFilter))
	return nil, nil
}

// ask returns the counts for the pod, up to date with the nodes. idle says that neither the pod nor one on a node has
// affinity. If it returns neither, upstream's plugin has to answer: the lister has other nodes, or there is an error
// to report about the pod's terms.
func (a *Affinity) ask(pod *v1.Pod, nodes []fwk.NodeInfo) (c *topologycount.Counts, idle bool) {
	if a.off {
		return nil, false
	}
	lister := a.lister.NodeInfos()
	if !topologycount.HasTerms(pod) {
		affine, err := lister.HavePodsWithAffinityList()
		if err != nil {
			return nil, false
		}
		if len(affine) == 0 {
			return nil, true
		}
	}
	list, err := lister.List()
	if err != nil || !same(list, nodes) {
		return nil, false
	}
	if a.ledger.Update(list) != nil || a.forgetNamespaces() != nil {
		return nil, false
	}
	if a.last.pod == pod && !a.last.counts.Dropped() {
		c = a.last.counts
	} else if c, err = a.countsOf(pod); err != nil {
		return nil, false
	}
	a.ledger.Use(c)
	a.last = asked{pod, c}
	return c, false
}

// same reports whether these are the same nodes, in the same order.
func same(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// forgetNamespaces drops the counts of pods to which a change of namespaces makes a difference.
func (a *Affinity) forgetNamespaces() error {
	changes, err := a.namespaces.update()
	if err == nil && len(changes) > 0 {
		a.ledger.Forget(func(of topologycount.Question) bool {
			q, ok := of.(*question)
			return ok && slices.ContainsFunc(changes, func(c namespaceChange) bool { return c.changes(q) })
		})
	}
	return err
}

// countsOf returns the counts for the pod's terms. It fails if these cannot be read.
func (a *Affinity) countsOf(pod *v1.Pod) (*topologycount.Counts, error) {
	key, err := a.appendKey(pod)
	if err != nil {
		return nil, err
	}
	if c := a.ledger.Find(key); c != nil {
		return c, nil
	}
	q, err := newQuestion(pod, int64(a.args.HardPodAffinityWeight), &a.namespaces)
	if err != nil {
		return nil, err
	}
	if err := a.ledger.LearnTerms(q.info); err != nil {
		return nil, err
	}
	if key, err = a.appendKey(pod); err != nil { // it may name more labels now
		return nil, err
	}
	c := a.ledger.Keep(key, q)
	q.addColumns(c)
	return c, nil
}

// appendKey returns the key of the pod's counts. It is valid until the next call.
func (a *Affinity) appendKey(pod *v1.Pod) (key []byte, err error) {
	key, err = a.ledger.AppendPod(append(a.key[:0], 'a'), pod)
	if err == nil {
		a.key = key
	}
	return key, err
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (a *Affinity) PreFilterExtensions() fwk.PreFilterExtensions { return a }

// AddPod implements fwk.PreFilterExtensions.
func (a *Affinity) AddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, add fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state, filterKey)
	if r == nil {
		return a.InterPodAffinity.AddPod(ctx, state, pod, add, node)
	}
	r.change(add, node.Node(), +1)
	return nil
}

// RemovePod implements fwk.PreFilterExtensions.
func (a *Affinity) RemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, remove fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state, filterKey)
	if r == nil {
		return a.InterPodAffinity.RemovePod(ctx, state, pod, remove, node)
	}
	r.change(remove, node.Node(), -1)
	return nil
}

// Filter implements fwk.FilterPlugin.
func (a *Affinity) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	r := readingOf(state, filterKey)
	if r == nil {
		return a.InterPodAffinity.Filter(ctx, state, pod, node)
	}
	return a.refusals[r.judge(r.Position(node))]
}

// PreScore implements fwk.PreScorePlugin.
func (a *Affinity) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	state.Delete(scoreKey)
	list, err := a.lister.NodeInfos().List()
	if err != nil {
		return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	c, idle := a.ask(pod, list)
	switch {
	case idle:
		return skip
	case c == nil:
		return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	matches := func(c topologycount.Column) bool { return forScore(c.Role) && c.Matches > 0 }
	if !slices.ContainsFunc(c.Columns(), matches) ||
		a.args.IgnorePreferredTermsOfExistingPods && !c.Question.(*question).prefers() {
		return skip
	}
	state.Write(scoreKey, newReading(c, pod, forScore))
	return nil
}

// Score implements fwk.ScorePlugin.
func (a *Affinity) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	r := readingOf(state, scoreKey)
	if r == nil {
		return a.InterPodAffinity.Score(ctx, state, pod, node)
	}
	return r.score(r.Position(node)), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (a *Affinity) ScoreExtensions() fwk.ScoreExtensions { return a }

// NormalizeScore implements fwk.ScoreExtensions.
func (a *Affinity) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	if readingOf(state, scoreKey) == nil {
		return a.InterPodAffinity.NormalizeScore(ctx, state, pod, scores)
	}
	column := make([]int64, len(scores))
	for i := range scores {
		column[i] = scores[i].Score
	}
	a.normalize(column)
	for i := range scores {
		scores[i].Score = column[i]
	}
	return nil
}

// normalize puts the scores on upstream's scale, of which the ends are the least and the highest score.
func (a *Affinity) normalize(column []int64) {
	if len(column) == 0 {
		return
	}
	least, most := slices.Min(column), slices.Max(column)
	a.rescaler.Rescale(column, least, most, func(score int64) int64 {
		if most-least <= 0 {
			return 0
		}
		return int64(float64(fwk.MaxScore) * (float64(score-least) / float64(most-least)))
	})
}

// SurveyFilter implements framework.Surveyor of Rollcall.
func (a *Affinity) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	r := readingOf(state, filterKey)
	if r == nil || !r.Surveys(nodes) {
		return false
	}
	r.judgeAll(pass)
	return true
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (a *Affinity) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	r := readingOf(state, scoreKey)
	if r == nil || !r.Surveys(nodes) {
		return false
	}
	r.scoreAll(scores)
	return true
}

// NormalizeColumn implements framework.ColumnNormalizer of Rollcall.
func (a *Affinity) NormalizeColumn(state fwk.CycleState, _ []int32, column []int64) bool {
	if readingOf(state, scoreKey) == nil {
		return false
	}
	a.normalize(column)
	return true
}
