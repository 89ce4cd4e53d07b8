// Package quickaffinity is kube-scheduler's InterPodAffinity, under its name, that does not walk over all pods of all
// nodes for every pod. It keeps, from pod to pod, how many pods count for which term in which domain of a topology, and
// looks only at nodes that have changed. Hints, and whatever else there is, are kube-scheduler's plugin's own answers;
// what is refused, in which words, and every score is the same. A test compares the two.
//
// What is kept is only a memo: it is never part of any state, and with an empty one the same comes out.
//
// Start at PreFilter; ledger.go is what is known of nodes and pods, memo.go how counts are kept up and what makes two
// pods share them, reading.go what one pod's cycle sees.
package quickaffinity

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
)

// Affinity is the plugin.
type Affinity struct {
	*interpodaffinity.InterPodAffinity
	args     config.InterPodAffinityArgs
	off      bool // upstream's plugin does everything itself
	deferred bool // a pod whose resize is deferred is not looked at
	lister   fwk.SharedLister
	changed  changedSince // nil: all nodes are compared

	ledger ledger
	memos  memos
	last   asked
	normal []int64 // memory of NormalizeColumn

	namespaces namespaces

	// The refusals there are, by verdict. Whoever gets one may name this plugin in it, and change nothing else.
	refusals [unwelcome + 1]*fwk.Status
}

// asked is who was asked about last, and what was found.
type asked struct {
	pod      *v1.Pod
	memo     *memo
	renewals int
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
			// Under this gate upstream looks at pods on the node itself, and at others no more.
			off:      gates.EnableInterPodAffinityHostnameFastPath,
			deferred: gates.EnableInPlacePodVerticalScalingSchedulerPreemption,
			lister:   h.SnapshotSharedLister(),
			memos:    memos{most: maxMemory},
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
		if c, ok := h.(framework.Changes); ok {
			a.changed = c.ChangedSince
		}
		return a, nil
	}
}

// refusal is upstream's status of a node that the plugin refuses.
func refusal(code fwk.Code, reason string) *fwk.Status {
	return fwk.NewStatus(code, reason).WithPlugin(interpodaffinity.Name)
}

// skip is what the plugin answers that has nothing to do for the pod. It must not be changed.
var skip = fwk.NewStatus(fwk.Skip)

// PreFilter implements fwk.PreFilterPlugin. What upstream's plugin is to answer for, it answers for in every later step
// of the pod's cycle: then there is no reading in the state.
func (a *Affinity) PreFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	state.Delete(filterKey)
	if a.deferred && resource.IsPodResizeDeferred(pod) {
		return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	m, idle := a.ask(pod, nodes)
	switch {
	case idle:
		return nil, skip
	case m == nil:
		return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	r := m.read(&a.ledger, pod, role.filters)
	if !m.demands() && !r.has(existing) {
		return nil, skip
	}
	state.Write(filterKey, r)
	return nil, nil
}

// ask returns the memo for the pod, brought up to date with the nodes. idle says that no pod, neither this one nor one
// on a node, has affinity. With neither upstream's plugin has the word: the nodes are not those of the lister, or it
// has something to say about the pod's terms.
func (a *Affinity) ask(pod *v1.Pod, nodes []fwk.NodeInfo) (m *memo, idle bool) {
	if a.off {
		return nil, false
	}
	lister := a.lister.NodeInfos()
	if !hasTerms(pod) {
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
	still, err := a.ledger.update(list, a.changed)
	if !still {
		a.memos.drop()
		a.last = asked{}
	}
	if err != nil || a.forgetNamespaces() != nil {
		return nil, false
	}
	if a.last.pod == pod && a.last.renewals == a.ledger.renewals {
		m = a.last.memo
	} else if m = a.memoOf(pod); m == nil {
		return nil, false
	}
	m.update(&a.ledger)
	a.memos.account(&a.ledger, m)
	a.last = asked{pod, m, a.ledger.renewals}
	return m, false
}

// same reports whether these are the same nodes, in the same order.
func same(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// forgetNamespaces forgets the memos of pods to which a change of namespaces makes a difference.
func (a *Affinity) forgetNamespaces() error {
	changes, err := a.namespaces.update()
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		a.memos.forget(&a.ledger, func(q *question) bool {
			return slices.ContainsFunc(changes, func(c namespaceChange) bool { return c.changes(q) })
		})
		a.last = asked{}
	}
	return nil
}

// memoOf returns the memo of what the pod asks, nil if it has terms that cannot be read.
func (a *Affinity) memoOf(pod *v1.Pod) *memo {
	l := &a.ledger
	key, err := l.appendPod(l.key[:0], pod)
	if err != nil {
		return nil
	}
	l.key = key
	if m := a.memos.find(key); m != nil {
		return m
	}
	q, ok := a.question(pod)
	if !ok {
		return nil
	}
	l.labels.learnPod(q.info)
	if l.labels.grown { // kinds, and memos, are told apart by more labels now
		a.memos.drop()
		a.last = asked{}
		if l.renew() != nil {
			return nil
		}
		if key, err = l.appendPod(l.key[:0], pod); err != nil {
			return nil
		}
		l.key = key
	}
	m := newMemo(l, q)
	a.memos.keep(key, m)
	return m
}

// question reads the pod's terms.
func (a *Affinity) question(pod *v1.Pod) (question, bool) {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		return question{}, false
	}
	q := question{
		costs: &a.memos.costs, hardWeight: int64(a.args.HardPodAffinityWeight), pod: pod, info: info,
		namespaceLabels: a.namespaces.labels[pod.Namespace],
	}
	for _, terms := range [][]fwk.AffinityTerm{info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()} {
		for i := range terms {
			if q.resolve(&terms[i], a.namespaces.lister) != nil {
				return question{}, false
			}
		}
	}
	for _, terms := range [][]fwk.WeightedAffinityTerm{info.GetPreferredAffinityTerms(),
		info.GetPreferredAntiAffinityTerms()} {
		for i := range terms {
			if q.resolve(&terms[i].AffinityTerm, a.namespaces.lister) != nil {
				return question{}, false
			}
		}
	}
	q.matchesItself = matchesAll(info.GetRequiredAffinityTerms(), pod)
	return q, true
}

// resolve puts the namespaces that the term's selector stands for in its place, unless it stands for all.
func (q *question) resolve(term *fwk.AffinityTerm, namespaces corelisters.NamespaceLister) error {
	if term.NamespaceSelector.Empty() {
		return nil
	}
	list, err := namespaces.List(term.NamespaceSelector)
	if err != nil {
		return err
	}
	for _, n := range list {
		term.Namespaces.Insert(n.Name)
	}
	if term.NamespaceSelector.String() != labels.Nothing().String() {
		q.selectors = append(q.selectors, term.NamespaceSelector)
	}
	term.NamespaceSelector = labels.Nothing()
	return nil
}

// demands reports whether the pod itself has required terms.
func (q *question) demands() bool {
	return len(q.info.GetRequiredAffinityTerms()) > 0 || len(q.info.GetRequiredAntiAffinityTerms()) > 0
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (a *Affinity) PreFilterExtensions() fwk.PreFilterExtensions { return a }

// AddPod implements fwk.PreFilterExtensions.
func (a *Affinity) AddPod(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	add fwk.PodInfo,
	node fwk.NodeInfo,
) *fwk.Status {
	r := readingOf(state, filterKey)
	if r == nil {
		return a.InterPodAffinity.AddPod(ctx, state, pod, add, node)
	}
	r.change(add, node.Node(), +1)
	return nil
}

// RemovePod implements fwk.PreFilterExtensions.
func (a *Affinity) RemovePod(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	remove fwk.PodInfo,
	node fwk.NodeInfo,
) *fwk.Status {
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
	return a.refusals[r.judge(r.spotOf(node))]
}

// PreScore implements fwk.PreScorePlugin.
func (a *Affinity) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	state.Delete(scoreKey)
	list, err := a.lister.NodeInfos().List()
	if err != nil {
		return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	m, idle := a.ask(pod, list)
	switch {
	case idle:
		return skip
	case m == nil:
		return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	case a.args.IgnorePreferredTermsOfExistingPods && !m.prefers(), m.touched == 0:
		return skip
	}
	state.Write(scoreKey, m.read(&a.ledger, pod, role.scores))
	return nil
}

// prefers reports whether the pod itself has preferred terms.
func (q *question) prefers() bool {
	return len(q.info.GetPreferredAffinityTerms()) > 0 || len(q.info.GetPreferredAntiAffinityTerms()) > 0
}

// Score implements fwk.ScorePlugin.
func (a *Affinity) Score(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	node fwk.NodeInfo,
) (int64, *fwk.Status) {
	r := readingOf(state, scoreKey)
	if r == nil {
		return a.InterPodAffinity.Score(ctx, state, pod, node)
	}
	return r.score(r.spotOf(node)), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (a *Affinity) ScoreExtensions() fwk.ScoreExtensions { return a }

// NormalizeScore implements fwk.ScoreExtensions.
func (a *Affinity) NormalizeScore(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	scores fwk.NodeScoreList,
) *fwk.Status {
	if readingOf(state, scoreKey) == nil {
		return a.InterPodAffinity.NormalizeScore(ctx, state, pod, scores)
	}
	if len(scores) == 0 {
		return nil
	}
	least, most := scores[0].Score, scores[0].Score
	for i := range scores {
		least, most = min(least, scores[i].Score), max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = normalized(scores[i].Score, least, most)
	}
	return nil
}
