package quickspread

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// rule is the part of a constraint that counts depend on.
type rule struct {
	topology topologycount.Key
	selector labels.Selector
	// affinity and taints: only nodes count that the pod's node affinity matches, and whose taints it tolerates.
	affinity, taints bool
}

// rules are the rules of pods that share counts. Each has a column of the pods that match. A hard one also has a column
// of the nodes that count, because a domain exists only where there is such a node.
type rules struct {
	list      []rule
	soft      bool
	namespace string

	// Parts of the pod, as far as a rule's policies ask for them.
	required    nodeaffinity.RequiredNodeAffinity
	tolerations []v1.Toleration
	comparisons bool

	logger klog.Logger
	// node is the last argument of admit, and admitted has its answers by rule.
	node     *v1.Node
	admitted []bool
}

// The columns of the i-th rule come in this order; soft rules have pods only.
func (r *rules) pods(i int) int  { return i * r.each() }
func (r *rules) nodes(i int) int { return i*r.each() + 1 }

// each returns how many columns a rule has. A column's role is its place.
func (r *rules) each() int {
	if r.soft {
		return 1
	}
	return 2
}

func newRules(q *question, logger klog.Logger) (*rules, error) {
	list, err := q.rules()
	if err != nil {
		return nil, err
	}
	return &rules{
		list:        list,
		soft:        q.soft,
		namespace:   q.pod.Namespace,
		required:    nodeaffinity.GetRequiredNodeAffinity(q.pod),
		tolerations: q.pod.Spec.Tolerations,
		comparisons: q.gates.comparisons,
		logger:      logger,
		admitted:    make([]bool, len(list)),
	}, nil
}

// selectors returns the selectors of all rules.
func (r *rules) selectors() (out []labels.Selector) {
	for i := range r.list {
		out = append(out, r.list[i].selector)
	}
	return out
}

// addColumns makes a column for every role.
func (r *rules) addColumns(c *topologycount.Counts) {
	for i := range r.list {
		for role := r.pods(i); role < r.pods(i+1); role++ {
			c.AddColumn(topologycount.Role(role), r.list[i].topology)
		}
	}
}

// Adds implements topologycount.Question.
func (r *rules) Adds(info fwk.PodInfo, to *topologycount.Parts) {
	for i := range r.list {
		switch {
		case info != nil && r.matches(i, info.GetPod()):
			to.Add(topologycount.Role(r.pods(i)), r.list[i].topology, 1)
		case info == nil && !r.soft:
			to.Add(topologycount.Role(r.nodes(i)), r.list[i].topology, 1)
		}
	}
}

// matches reports whether the pod counts for the i-th rule. Pods that are being deleted do not count, and a selector
// that matches everything counts none, as upstream has it.
func (r *rules) matches(i int, pod *v1.Pod) bool {
	s := r.list[i].selector
	return pod.Namespace == r.namespace && pod.DeletionTimestamp == nil && !s.Empty() &&
		s.Matches(labels.Set(pod.Labels))
}

// matching counts the pods on the node that count for the i-th rule.
func (r *rules) matching(i int, node fwk.NodeInfo) (n int64) {
	for _, info := range node.GetPods() {
		if r.matches(i, info.GetPod()) {
			n++
		}
	}
	return n
}

// Admits implements topologycount.Question.
func (r *rules) Admits(node *v1.Node, role topologycount.Role) bool {
	return r.admits(node, int(role)/r.each())
}

// admits reports whether the node counts for the i-th rule. Nodes that lack the label of any rule count for none.
func (r *rules) admits(node *v1.Node, i int) bool {
	if r.list[i].topology.EachNode { // its pods count for the node's own score only
		return true
	}
	if r.node != node {
		r.node = node
		r.admit(node)
	}
	return r.admitted[i]
}

// admit sets r.admitted for the node.
func (r *rules) admit(node *v1.Node) {
	clear(r.admitted)
	for i := range r.list {
		if _, ok := node.Labels[r.list[i].topology.Label]; !ok {
			return
		}
	}
	matches, tolerates := r.fits(node)
	for i := range r.list {
		r.admitted[i] = (matches || !r.list[i].affinity) && (tolerates || !r.list[i].taints)
	}
}

// fits reports whether the pod's node affinity matches the node, and whether it tolerates the node's taints, as far as
// a policy asks for it.
func (r *rules) fits(node *v1.Node) (matches, tolerates bool) {
	affinity, taints := false, false
	for i := range r.list {
		affinity, taints = affinity || r.list[i].affinity, taints || r.list[i].taints
	}
	if affinity {
		matches, _ = r.required.Match(node) // a term that cannot be read matches nothing, as upstream has it
	}
	if taints {
		_, untolerated := corev1.FindMatchingUntoleratedTaint(r.logger, node.Spec.Taints, r.tolerations,
			helper.DoNotScheduleTaintsFilterFunc(), r.comparisons)
		tolerates = !untolerated
	}
	return matches, tolerates
}
