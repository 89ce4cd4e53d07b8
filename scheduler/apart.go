package scheduler

import (
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Room for a nominated pod is made by more than what it requests: a pod whose required anti-affinity wants another one
// out of its zone has it evicted, and what replaces that one must not be placed in the zone meanwhile. Plugins do not
// see to that. InterPodAffinity is skipped where no pod on a node has such terms, and otherwise looks at the pods that
// are nominated to the node itself, not to others of its zone. Without this such a pair would go on for ever: the
// replacement is placed at once, and the nominated pod has it evicted again.

// reasonApart is why a pod must not go to a node. It is recorded.
const reasonApart = "node(s) didn't satisfy anti-affinity rules with nominated pods"

// An area is a value of a node's label: the nodes that have it.
type area struct{ key, value string }

// apartFrom returns why the pod must not go to nodes that have room for it: a pod that a Decision nominated to one of
// them, or to another one of the same topology, and whose room is not free for it, must not be beside it. It is nil if
// there is no such node.
func (n *nominations) apartFrom(pod *v1.Pod, namespaces corelisters.NamespaceLister) func(fwk.NodeInfo) *fwk.Status {
	p := n.entities.cluster.Pod(pod.UID)
	if len(n.own) == 0 || p == nil || p.Object.Spec.NodeName != "" {
		return nil
	}
	others := n.own
	if len(p.Info().GetRequiredAntiAffinityTerms()) == 0 {
		others = n.termed // the others have nothing against it
	}
	var taken []area
	// any order: each area is refused for the same reason
	for uid := range others {
		other, node := n.entities.cluster.Pod(uid), n.entities.cluster.Node(n.nodes[uid])
		if other == nil || node == nil {
			continue
		}
		for _, key := range keysApart(other, p, namespaces) {
			if value, ok := node.Labels[key]; ok && n.keepsFrom(other, p) {
				taken = append(taken, area{key, value})
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return func(info fwk.NodeInfo) *fwk.Status {
		for _, t := range taken {
			if value, ok := info.Node().Labels[t.key]; ok && value == t.value {
				return fwk.NewStatus(fwk.Unschedulable, reasonApart).WithPlugin(interpodaffinity.Name)
			}
		}
		return nil
	}
}

// keepsFrom reports whether what is kept for a nominated pod is not free for another one, which is of no gang with it:
// members of one gang are looked at where their gang is placed.
func (n *nominations) keepsFrom(nominated, other *cluster.Pod) bool {
	return n.counts(nominated.Object.UID) && n.entities.keyOf(nominated) != n.entities.keyOf(other) &&
		n.KeepsFrom(nominated.Object, other.Object)
}

// keysApart returns the topology keys by which one of two pods must not be beside the other one.
func keysApart(a, b *cluster.Pod, namespaces corelisters.NamespaceLister) (keys []string) {
	for _, pair := range [][2]*cluster.Pod{{a, b}, {b, a}} {
		terms := pair[0].Info().GetRequiredAntiAffinityTerms()
		if len(terms) == 0 {
			continue
		}
		var of labels.Set = interpodaffinity.GetNamespaceLabelsSnapshot(logr.Discard(),
			pair[1].Object.Namespace, namespaces)
		for i := range terms {
			if terms[i].Matches(pair[1].Object, of) {
				keys = append(keys, terms[i].TopologyKey)
			}
		}
	}
	return keys
}
