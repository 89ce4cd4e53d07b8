package auditor

// Check is one subject of an audit.
type Check struct{ Name, Holds string }

// Checks returns all checks, with the rule that each of them checks.
func Checks() []Check {
	return []Check{
		{"order", "entries are numbered without a gap; time and epochs never go back"},
		{"names", "no two pods of one name are there at once"},
		{"nodes", "a pod goes to a node that is there, one of those that were looked at"},
		{"profile", "a pod is placed only if a profile is for its scheduler name"},
		{"gates", "no pod with scheduling gates, or that is being deleted, is placed"},
		{"capacity", "no node is given more than its allocatable of any resource, pods included"},
		{"ports", "no two pods on a node have the same host port"},
		{"cordon", "no pod goes to a node that is unschedulable and that it does not tolerate"},
		{"taints", "no pod goes to a node with a taint that it does not tolerate"},
		{"node-affinity", "a pod's node has what its node selector and required node affinity ask for"},
		{"pod-affinity", "required affinity and anti-affinity of pods hold when one of them is placed"},
		{"spread", "spread constraints that forbid hold when a pod is placed"},
		{"volumes", "a pod's volumes can be reached from its node, and each claim gets one volume that suits it"},
		{"devices", "a claim gets devices that are there and that no other claim has, unless they may be shared"},
		{"given-back", "no claim has devices when the last pod that used it is gone"},
		{"gang-minimum", "no pod of a gang may be bound before its minimum is on nodes"},
		{"gangs-together", "gangs that are admitted together have their minimum in the same Decision"},
		{"held", "no pod is held on a node while another entity has its turn"},
		{"deadline", "no pod is held beyond its deadline"},
		{"topology", "the pods of a gang are in one domain, where that is required"},
		{"below-minimum", "the rest of a gang is evicted only if it asks for that, and is below its minimum"},
		{"fifo", "under StrictFIFO nothing passes an entity that comes first and lacks what it needs"},
		{"reservation", "under Backfill nothing is in the way of a reservation, and none goes by"},
		{"preemption", "victims are pods on nodes, for a pod with a nominated node"},
		{"priority", "victims have a lower priority"},
		{"never", "nothing is preempted for a pod that says Never"},
		{"whole-groups", "of a group that must be preempted together, all are"},
		{"victims-needed", "the preemptor fits without its victims, and not with one of them"},
		{"budgets", "disruption budgets are violated only where there is no other way"},
		{"nominations", "no pod takes room that is kept for others that are as important"},
		{"refused", "a pod for which no node was found could not have gone to one"},
		{"effects", "every effect follows from a Decision, and is carried out at that instant"},
		{"endings", "a pod goes when its time is over, or with its node, or because it was evicted, and not otherwise"},
		{"evictions", "a pod is evicted by the taints of its node when it tolerates them no longer, or by a drain"},
		{"accounted", "every pod of the input arrives, as often as it stands there"},
		{"forgotten", "in the end no pod waits for which there is room"},
	}
}
