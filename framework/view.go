package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Gangs is the view of the scheduler's state for a plugin that places gangs. kube-scheduler's own handle has no such
// view.
type Gangs interface {
	// GroupOf returns the gang that pod names, nil if it names none.
	GroupOf(pod *v1.Pod) *cluster.Group
	// Lacks reports whether all nodes together have too little free for g to reach its minimum, and the shortfall. If
	// it returns true, that is certain. If it returns false, the gang may still not fit.
	Lacks(g *cluster.Group) (cluster.Shortfall, bool)
	// LacksTogether is Lacks for all gangs of a composite, if it needs all of them.
	LacksTogether(c *cluster.Composite) (cluster.Shortfall, bool)
	// Domain returns the nodes that the next member of g may use. Callers ask it only for gangs with a topology.
	Domain(g *cluster.Group) Domain
	// Cleared returns the number of members of g that wait on nodes for the gang plugin alone.
	Cleared(g *cluster.Group) int
	// HeldByOthers reports whether another Permit plugin wants to hold the pod whose cycle is running.
	HeldByOthers() bool
	// Left returns the number of members of g that the current attempt has still to try, including the pod whose cycle
	// is running.
	Left(g *cluster.Group) int
}

// Domain has the nodes that a gang's topology leaves to its next member.
type Domain struct {
	// Refusal is the reason why the member may use no node, "" if it may.
	Refusal string
	// Limited is set if the member may use only Nodes.
	Limited bool
	Nodes   []string
}

// Evictions is the view of the scheduler's state for a plugin that evicts pods.
type Evictions interface {
	// State returns the cluster's state. It is read-only.
	State() *cluster.State
	// GangPlugin returns the name of the plugin that schedules the members of a group together, "" if the profile has
	// none.
	GangPlugin() string
	// Left returns the number of members of g that the current attempt has still to try, including the pod whose cycle
	// is running.
	Left(g *cluster.Group) int
	// DomainsAnew returns the domains that the members of g can choose from when the attempt starts over, by name, each
	// as a list of nodes. The members that wait have then given their nodes back (see gang.Gang.KeepsNodes). It
	// considers only the nodes of within; nil means all nodes. limited is false if the members may use any node.
	DomainsAnew(g *cluster.Group, within []string) (nodes [][]string, limited bool)
	// DomainsBelow is DomainsAnew for all gangs below a composite.
	DomainsBelow(c *cluster.Composite, within []string) (nodes [][]string, limited bool)
	// TakesEmpty reports whether the nodes, without any pods on them, might have room for wanted of the pods. The pods
	// must be alike. If it returns false, that is certain, provided that the profile filters nodes only by requests,
	// selectors, affinity and taints.
	TakesEmpty(pods []*cluster.Pod, wanted int) bool
	// TakesCleared reports whether the nodes, without terminating pods and pods of lower priority, might have room for
	// wanted of the pods. The conditions of TakesEmpty apply.
	//
	// It answers from earlier counts. If there is none for such pods and this priority, it returns true, unless count
	// is set: then it counts now, which visits all nodes.
	TakesCleared(pods []*cluster.Pod, wanted int, priority int32, count bool) bool
	// KeepsMemos reports whether a plugin may keep results for later cycles.
	KeepsMemos() bool
	// Going reports whether an earlier decision has asked for the pod's eviction.
	Going(uid types.UID) bool
	// Spared reports whether an eviction of the pod was refused a short while ago, so that another try would fail too.
	Spared(uid types.UID) bool
	// NominatedNode returns the node to which the pod is nominated, "" for none.
	NominatedNode(uid types.UID) string
	// Extended returns the answers of HTTP extenders about preemption for the pod, nil if no extender is interested in
	// it.
	Extended(pod *v1.Pod) *PreemptVerdict
	// InVain returns the nodes, sorted, that HTTP extenders refused after preemption had made room for the pod there.
	// exhausted is set if there are so many that preemption must not try another one.
	InVain(uid types.UID) (nodes []string, exhausted bool)
}
