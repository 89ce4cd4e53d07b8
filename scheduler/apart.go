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

// A nominated pod may need more than its requests. Suppose that its required anti-affinity keeps another pod out of its
// zone, and that pod was evicted. The pod that replaces the victim must not go to the zone meanwhile, or the nominated
// pod evicts it again, without end. InterPodAffinity does not prevent that: it is skipped where no pod on a node has
// such terms, and it reads the pods nominated to the node itself, not to other nodes of the zone.

// reasonApart is the recorded reason for which a pod must not go to a node.
const reasonApart = "node(s) didn't satisfy anti-affinity rules with nominated pods"

// An area is a value of a node's label: the nodes that have it.
type area struct{ key, value string }

// apartFrom returns a function that refuses nodes that have room for the pod. It refuses a node if a Decision nominated
// another pod to it, or to a node of the same topology value, and the two pods must be apart. It is nil if it refuses
// no node.
func (n *nominations) apartFrom(pod *v1.Pod, namespaces corelisters.NamespaceLister) func(fwk.NodeInfo) *fwk.Status {
	p := n.entities.cluster.Pods().Get(pod.UID)
	if len(n.own) == 0 || p == nil || p.Object.Spec.NodeName != "" {
		return nil
	}
	others := n.own
	if len(p.Info().GetRequiredAntiAffinityTerms()) == 0 {
		others = n.repelling // no other pod forbids it
	}
	var taken []area
	// any order: each area is refused for the same reason
	for uid := range others {
		other, node := n.entities.cluster.Pods().Get(uid), n.entities.cluster.Nodes().Object(n.nodes[uid])
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

// keepsFrom reports whether the room kept for a nominated pod is not free for another pod. Members of one gang are not
// compared here: the gang's own attempt places them.
func (n *nominations) keepsFrom(nominated, other *cluster.Pod) bool {
	return n.counts(nominated.Object.UID) && n.entities.keyOf(nominated) != n.entities.keyOf(other) &&
		n.KeepsFrom(nominated.Object, other.Object)
}

// keysApart returns the topology keys of the terms that keep two pods apart.
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
