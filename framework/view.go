package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Gangs is what a plugin that places gangs asks of the scheduler's state. kube-scheduler's own handle has no such
// view.
type Gangs interface {
	// GroupOf returns the gang that pod names, nil if it names none.
	GroupOf(pod *v1.Pod) *cluster.Group
	// Lacks reports whether all nodes together have too little free for what g still needs to reach its
	// minimum, and of what. A true answer is certain; a false one promises nothing.
	Lacks(g *cluster.Group) (cluster.Shortfall, bool)
	// LacksTogether reports the same of the gangs of a composite, if all of them are needed.
	LacksTogether(c *cluster.Composite) (cluster.Shortfall, bool)
	// Domain returns where the next member of g may go. It is asked of gangs with a topology only.
	Domain(g *cluster.Group) Domain
	// Cleared returns how many members of g the gang plugin alone holds on nodes.
	Cleared(g *cluster.Group) int
	// HeldByOthers reports whether another Permit plugin holds the pod whose cycle is running.
	HeldByOthers() bool
	// Left returns how many members of g the attempt under way has still to try, including the one whose cycle is
	// running.
	Left(g *cluster.Group) int
}

// Domain is where the next member of a gang may go by what the gang says of topology.
type Domain struct {
	// Refusal says that it may go nowhere, "" that it may.
	Refusal string
	// Limited says that it may go to Nodes only.
	Limited bool
	Nodes   []string
}

// Evictions is what a plugin that has pods evicted asks of the scheduler's state.
type Evictions interface {
	// State returns the cluster's state, to be read only.
	State() *cluster.State
	// GangPlugin returns the name of the plugin that treats the members of a group as one, "" if the profile has none.
	GangPlugin() string
	// Left returns how many members of g the attempt under way has still to try, including the one whose cycle is
	// running.
	Left(g *cluster.Group) int
	// DomainsAnew returns the domains of the nodes within within (nil: all nodes), by name, of which the members of g
	// must choose one when the attempt
	// starts over, so that those that wait have given their nodes back (see gang.Gang.KeepsNodes); limited is false if
	// they may go anywhere.
	DomainsAnew(g *cluster.Group, within []string) (nodes [][]string, limited bool)
	// DomainsBelow is DomainsAnew for all gangs below a composite.
	DomainsBelow(c *cluster.Composite, within []string) (nodes [][]string, limited bool)
	// TakesEmpty reports whether the nodes might take so many of the pods if nothing ran there; a no is certain, of
	// pods that are alike, in a profile that filters nodes by what pods request, by selectors, affinity and taints.
	TakesEmpty(pods []*cluster.Pod, wanted int) bool
	// TakesCleared reports whether the nodes might take so many of the pods if all pods of lower priority had gone, and
	// those that are on their way out; a no is certain, of pods as TakesEmpty's. It is yes if nothing is known of pods
	// that are alike to these, and of that priority, unless it is to be counted now: that looks at all nodes.
	TakesCleared(pods []*cluster.Pod, wanted int, priority int32, count bool) bool
	// KeepsMemos reports whether what was found out may be remembered for later cycles.
	KeepsMemos() bool
	// Going reports whether an earlier decision has asked for the pod to be evicted.
	Going(uid types.UID) bool
	// Spared reports whether the eviction of the pod was refused a short while ago: it would be again.
	Spared(uid types.UID) bool
	// NominatedNode returns the node that the pod is nominated to, "" for none.
	NominatedNode(uid types.UID) string
	// Extended returns what HTTP extenders have answered about preemption for the pod, nil if none has a say in it.
	Extended(pod *v1.Pod) *PreemptVerdict
	// InVain returns the nodes, sorted, that HTTP extenders have refused to the pod after room was made for it there.
	// exhausted says that these are so many that no more is to be made.
	InVain(uid types.UID) (nodes []string, exhausted bool)
}
