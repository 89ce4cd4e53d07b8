// Package coscheduling is the gang plugin: the members of a PodGroup are placed all together or not at all. It has the
// name, the extension points and the label of Coscheduling in kubernetes-sigs/scheduler-plugins. It also reads
// PodGroups of scheduling.k8s.io and the annotations of other projects: docs/GANGS.md has them all.
//
// A gang goes through it in these steps:
//
//   - PreEnqueue keeps members out of the queue until the gang's minimum is declared and that many members exist. It
//     also keeps them out as long as the gang contradicts itself.
//   - QueueSort orders by priority (the PodGroup's own, if it has one), then by the time at which the pod or gang was
//     first queued.
//   - PreFilter refuses a gang at once when all nodes together have less free than its minimum needs.
//   - Permit holds each member on its node, and allows all of them in the cycle that completes the minimum.
//   - PostFilter and Unreserve release the held members when so many cannot be placed that the others are not enough.
//     So a gang that does not fit holds nothing.
//
// The plugin keeps no state. It reads gangs from framework.Gangs, which is rebuilt from the log.
//
// New also creates the plugin for a stock kube-scheduler, which has no log. Then it is standalone: it runs the same
// code on a view that informers feed, under a lock (standalone.go; docs/GANGS.md has the differences). It does there
// the work of this project's queue and Machine for gangs. This project's own scheduler uses none of that.
//
// A pod that names a PodGroup which does not exist yet waits for it, because members are often created before their
// group. In scheduler-plugins it is scheduled as if it had named none.
//
// Other Permit plugins can hold members as well. The gang plugin allows a gang once enough members for the minimum are
// held by no other plugin. If another Permit plugin rejects a member or times out before that, the whole gang is
// released. Rollcall calls the gang plugin's Permit last, so that it knows whether another plugin holds the member.
//
// Start reading at coscheduling.go; for the stock kube-scheduler continue at standalone.go.
package coscheduling
