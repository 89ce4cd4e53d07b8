package quickaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// The roles of the columns.
const (
	// existing pods have required anti-affinity against the pod.
	existing topologycount.Role = iota
	// attracting pods match all of the pod's required affinity terms.
	attracting
	// repelling pods match a required anti-affinity term of the pod.
	repelling
	// preferred sums up the weights of the pod's preferred terms and of the existing pods' terms.
	preferred
)

func forFilter(r topologycount.Role) bool { return r != preferred }
func forScore(r topologycount.Role) bool  { return r == preferred }

// question is a pod's own terms, with the namespaces that their selectors select now.
type question struct {
	hardWeight      int64 // what a required affinity term of another pod weighs as a preference
	pod             *v1.Pod
	namespaceLabels labels.Set
	selectors       []labels.Selector // of namespaces, in the pod's own terms; not the ones that select all, or none
	info            fwk.PodInfo
	matchesItself   bool // by all of its required affinity terms
}

// newQuestion reads the pod's terms.
func newQuestion(pod *v1.Pod, hardWeight int64, namespaces *namespaces) (*question, error) {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	q := &question{hardWeight: hardWeight, pod: pod, info: info, namespaceLabels: namespaces.labels[pod.Namespace]}
	for _, terms := range [][]fwk.AffinityTerm{info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()} {
		for i := range terms {
			if err := q.resolve(&terms[i], namespaces.lister); err != nil {
				return nil, err
			}
		}
	}
	for _, terms := range [][]fwk.WeightedAffinityTerm{info.GetPreferredAffinityTerms(),
		info.GetPreferredAntiAffinityTerms()} {
		for i := range terms {
			if err := q.resolve(&terms[i].AffinityTerm, namespaces.lister); err != nil {
				return nil, err
			}
		}
	}
	q.matchesItself = matchesAll(info.GetRequiredAffinityTerms(), pod)
	return q, nil
}

// resolve replaces the term's namespace selector by the namespaces that it selects, unless it selects all.
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

// prefers reports whether the pod itself has preferred terms.
func (q *question) prefers() bool {
	return len(q.info.GetPreferredAffinityTerms()) > 0 || len(q.info.GetPreferredAntiAffinityTerms()) > 0
}

// addColumns makes a column for each required affinity term, because the plugin reads these columns even if no pod adds
// to them. They come before all others, in the order of the terms.
func (q *question) addColumns(c *topologycount.Counts) {
	terms := q.info.GetRequiredAffinityTerms()
	for i := range terms {
		c.AddColumn(attracting, topologycount.Key{Label: terms[i].TopologyKey})
	}
}

// Admits implements topologycount.Question: affinity counts on every node.
func (*question) Admits(*v1.Node, topologycount.Role) bool { return true }

// Adds implements topologycount.Question.
func (q *question) Adds(other fwk.PodInfo, to *topologycount.Parts) {
	if other == nil {
		return
	}
	q.addRequired(other, to)
	q.addPreferred(other, to)
}

// addRequired adds what makes nodes feasible or not, as upstream counts it. The pod's own terms need no labels of
// namespaces, because resolve has named these.
func (q *question) addRequired(other fwk.PodInfo, to *topologycount.Parts) {
	theirs := other.GetRequiredAntiAffinityTerms()
	for i := range theirs {
		if theirs[i].Matches(q.pod, q.namespaceLabels) {
			to.Add(existing, topologycount.Key{Label: theirs[i].TopologyKey}, 1)
		}
	}
	own := q.info.GetRequiredAffinityTerms()
	if matchesAll(own, other.GetPod()) {
		for i := range own {
			to.Add(attracting, topologycount.Key{Label: own[i].TopologyKey}, 1)
		}
	}
	own = q.info.GetRequiredAntiAffinityTerms()
	for i := range own {
		if own[i].Matches(other.GetPod(), nil) {
			to.Add(repelling, topologycount.Key{Label: own[i].TopologyKey}, 1)
		}
	}
}

// addPreferred adds what the pod prefers of the other one, and the other one of the pod.
func (q *question) addPreferred(other fwk.PodInfo, to *topologycount.Parts) {
	weighted := func(terms []fwk.WeightedAffinityTerm, pod *v1.Pod, namespace labels.Set, sign int64) {
		for i := range terms {
			if terms[i].Matches(pod, namespace) {
				to.Add(preferred, topologycount.Key{Label: terms[i].TopologyKey}, sign*int64(terms[i].Weight))
			}
		}
	}
	weighted(q.info.GetPreferredAffinityTerms(), other.GetPod(), nil, 1)
	weighted(q.info.GetPreferredAntiAffinityTerms(), other.GetPod(), nil, -1)
	if q.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			if terms[i].Matches(q.pod, q.namespaceLabels) {
				to.Add(preferred, topologycount.Key{Label: terms[i].TopologyKey}, q.hardWeight)
			}
		}
	}
	weighted(other.GetPreferredAffinityTerms(), q.pod, q.namespaceLabels, 1)
	weighted(other.GetPreferredAntiAffinityTerms(), q.pod, q.namespaceLabels, -1)
}

// matchesAll reports whether there are terms and the pod matches every one.
func matchesAll(terms []fwk.AffinityTerm, pod *v1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}
