// Package coscheduling is the gang plugin: the members of a PodGroup are placed all together or not at all.
// Its name, its extension points and the label it reads are those of Coscheduling in
// kubernetes-sigs/scheduler-plugins; PodGroups of scheduling.k8s.io and the annotations of other projects are read
// as well: docs/GANGS.md has them all.
//
// How a gang goes through it:
//
//   - PreEnqueue keeps members out of the queue until it is declared how many are enough and that many exist, and as
//     long as the gang contradicts itself.
//   - QueueSort orders by priority (the PodGroup's own, where it has one), then by when the pod or gang was first
//     queued.
//   - PreFilter refuses a gang at once when all nodes together have less free than its minimum needs.
//   - Permit holds each member on its node, and lets all of them go in the cycle that completes the minimum.
//   - PostFilter and Unreserve let the held members go again when so many cannot be placed that the others are
//     not enough, so that a gang that does not fit holds nothing.
//
// The plugin keeps no state: what it knows of a gang comes from framework.Gangs, which is rebuilt from the log.
//
// New also makes it for a stock kube-scheduler, which has no log: then it is standalone, which runs the same code on a
// view that informers feed, under a lock, and takes the place of what this project's queue and Machine do for gangs
// (standalone.go; docs/GANGS.md tells what differs). Nothing of that is used by this project's own scheduler.
//
// Unlike scheduler-plugins, a pod that names a PodGroup which does not exist (yet) waits for it instead of
// being scheduled as if it had named none: members are often created before their group.
//
// Other Permit plugins can hold members as well: a gang goes when its minimum is held by nothing else, and is released
// as a whole when one of them turns a member away or lets its deadline pass before that. In this project's runtime the
// plugin is asked after them, so that it knows whether one of them holds the member.
//
// Start reading at coscheduling.go; for the stock kube-scheduler go on at standalone.go.
package coscheduling
