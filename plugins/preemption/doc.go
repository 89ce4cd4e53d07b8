// Package preemption makes room for pods and gangs of higher priority: it decides which running pods have to go. It is
// what DefaultPreemption is in kube-scheduler, and has its name and its arguments in configurations, but it is a
// function of the state: no random offset, no map order, no call to the API, no work beside the cycle.
//
// The plugin proposes and does nothing. Its PostFilter answers Success with the node that the pod is nominated to, as
// any PostFilter plugin does, and leaves beside it, in the cycle's state, a Proposal: who has to go, and which other
// pods get a nomination or lose theirs. The scheduler writes both into the Decision; what comes of a Decision
// (evictions, nominations) is Apply's and needs no plugin. A victim that Permit still holds on its node is not evicted
// but turned away, by its waiting pod's Preempt.
//
// Single pods (node.go) are treated as kube-scheduler treats them: for each node all less important pods are thought
// away, and then taken back one by one, those that a disruption budget protects first, and the more important before
// the less, as long as the pod still fits; of the nodes on which it fits the one is chosen with the fewest budgets
// violated, the lowest priority among the victims, the lowest sum of priorities, the fewest victims, the latest start,
// and the smallest name. Where kube-scheduler's answer does not depend on chance ours is the same: a test compares
// them.
//
// A gang (gang.go) preempts when the attempt to place it has come to its end, and only if then the whole of it fits: as
// many members as its minimum still needs are placed one after the other, in a rehearsal without the victims. The
// victims are taken from the least important upwards until the gang fits, and then taken back from the most important
// downwards as long as it still does. So none of them could stay.
//
// For a gang with a topology by the fields of scheduling.k8s.io the nodes come first, as in kube-scheduler 1.37
// (framework/preemption/podgrouppreemption.go, selectVictimsOnDomain): all candidates of the domain are thought away,
// the members are placed once, where scores have them, and candidates are taken back in the same order as long as the
// members still fit on these very nodes. A pod so may have to go although a member would fit elsewhere in the domain.
// If the members fit without any candidate's going, none goes.
//
// In both cases:
//
//   - nobody preempts pods of the same priority or above; the priority of a gang's member is the gang's, where it has
//     one;
//   - nobody preempts whose preemptionPolicy is Never;
//   - the pods of a group whose disruptionMode is all are victims together or not at all;
//   - a pod that is on its way out holds its room until it is gone. A single pod that was nominated waits for it; a
//     gang
//     counts on it, however important that pod is and even if it is one of its own, and asks for others only if that is
//     not
//     enough;
//   - nobody preempts for room that a reservation keeps from the preemptor;
//   - a member beyond its gang's minimum takes no pod that another running gang needs, and of a gang that counts
//     waiting members only it takes none.
//
// Room beyond what pods request cannot be kept: a gang that asks in minResources for more than the members of its
// minimum request has nobody evicted.
//
// A gang that must stay within one domain of nodes plans for each of them, and the plan is chosen as a single pod's
// node is; of gangs that are admitted together and must do so nobody preempts.
//
// Devices come free when every pod that uses their claim goes, and a little later than these pods end. A preemptor that
// waits for them has no other pod evicted meanwhile (see plugins/devicesfreed.go, and devices.Trial).
//
// What a rehearsal cannot see are volumes that the members before would have taken: such a gang may preempt and then
// find no place.
//
// Start reading at preemption.go.
package preemption
