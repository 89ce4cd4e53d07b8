// Package room answers how many of some pods find room on the nodes: now, on nodes without some or all of their pods,
// and at a later time, as the running pods declare their durations.
//
// A Table makes an Outlook of the cluster's state. An Outlook holds amounts of the resources that its pods request,
// node by node, and is good until the state changes. It knows resources, node selectors, required node affinity and
// taints. It does not know what other plugins filter by. So its answers are estimates. They serve to choose a time and
// a place to reserve (package backfill) and a domain to try (the scheduler's topology search).
//
// Example: a node has 4 cpu, all taken by a pod that declares one hour and started at 10:00. The Outlook for a pod of 2
// cpu at 10:15 says that nothing fits now, that there is room at 11:00 on that node, and that the pod fits on empty
// nodes.
//
// Places count the pods of one shape that nodes take, with a Rule for the pods that count as gone.
//
// The package decides nothing and keeps no state. Start reading at Table.Outlook, then Outlook.Earliest.
package room
