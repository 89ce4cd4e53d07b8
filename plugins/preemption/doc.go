// Package preemption makes room for pods and gangs of higher priority: it decides which running pods are evicted. It
// replaces kube-scheduler's DefaultPreemption, and has its name and its arguments in configurations. It is a function
// of the state: no random offset, no map order, no call to the API, no work beside the cycle.
//
// A victim policy (framework.VictimPolicy) decides which pods may be preempted for which, and their order. This page
// describes the default, ByPriority.
//
// The plugin proposes and does nothing. Its PostFilter answers Success with the node that the pod is nominated to, as
// any PostFilter plugin does. Beside it, in the cycle's state, it leaves a Proposal: the pods to evict, and changes of
// other pods' nominations. The scheduler writes both into the Decision. Apply carries a Decision out and needs no
// plugin. A victim that Permit still holds on its node is not evicted but turned away, by its waiting pod's Preempt.
//
// # Single pods
//
// Single pods (node.go) are treated as in kube-scheduler. For each node, all less important pods are removed in a
// trial, and then put back one by one as long as the pod still fits. Pods that a disruption budget protects are put
// back first, and more important pods before less important ones. One of the nodes on which the pod fits is chosen.
// These rules decide, in order: the fewest budgets violated, the lowest priority among the victims, the lowest sum of
// priorities, the fewest victims, the latest start, the smallest name. A test compares the answers with
// kube-scheduler's, where these do not depend on chance.
//
// # Gangs
//
// A gang (gang.go) preempts when the attempt to place it has come to its end, and only if all of it fits then. As many
// members as its minimum still needs are placed one after the other, in a rehearsal without the victims. Victims are
// added from the least important upwards until the gang fits. Then they are put back from the most important downwards
// as long as it still fits. So none of them could stay.
//
// For a gang with a topology by the fields of scheduling.k8s.io the nodes come first, as in kube-scheduler 1.37
// (framework/preemption/podgrouppreemption.go, selectVictimsOnDomain). All candidates of the domain are removed, and
// the members are placed once, by their scores. Then candidates are put back in the same order as long as the members
// still fit on these very nodes. So a pod may have to go although a member would fit elsewhere in the domain. If the
// members fit without an eviction, none goes.
//
// A gang that must stay within one domain of nodes plans for each domain. The plan is chosen as a single pod's node is.
// Gangs that are admitted together and must stay within one domain preempt nobody.
//
// # Rules for both
//
//   - A preemptor takes only pods of lower priority. The priority of a gang's member is the gang's, if it has one.
//   - A pod whose preemptionPolicy is Never preempts nobody.
//   - The pods of a group whose disruptionMode is all are victims together or not at all.
//   - A pod that is on its way out holds its room until it is gone. A single pod that was nominated waits for it. A
//     gang
//     counts on it, however important that pod is and even if it is one of its own. It evicts others only if that is
//     not enough.
//   - No pod is preempted for room that a reservation keeps from the preemptor.
//   - A member beyond its gang's minimum takes no pod that another running gang needs. It takes no pod of a gang that
//     counts waiting members only.
//
// Only room that pods request can be kept. So a gang whose minResources exceed the requests of its minimum evicts
// nobody.
//
// Devices come free when every pod that uses their claim goes, and a little later than these pods end. A preemptor that
// waits for them evicts no other pod meanwhile (see plugins/devicesfreed.go, and devices.Trial).
//
// A rehearsal does not see volumes that earlier members would have taken: such a gang may preempt and then find no
// place.
//
// Start reading at preemption.go.
package preemption
