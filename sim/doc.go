// Package sim is a virtual cluster on a virtual clock. It runs the scheduler without Kubernetes.
//
// A Cluster plays the API server, the kubelets and the controllers of a real cluster. It turns its events into inputs
// (a node joins, is cordoned, fails; a pod arrives, ends) and carries out the effects of decisions (a bind starts the
// pod, an eviction ends it). It drives a Scheduler from one virtual instant to the next. It uses no wall clock, no
// goroutine and no random numbers: the same plans give the same inputs, bit for bit.
//
// It models these:
//
//   - Pods run from the instant they are bound for their planned duration and are then deleted.
//   - Nodes join, fail, return, and are cordoned and drained at planned offsets. A node that fails takes its pods with
//     it at once.
//   - Nodes that are not ready or do not answer have the taints of the node lifecycle controller. Taints evict pods
//     that tolerate them no longer. A pod that is deleted on a node that does not answer stays until the node answers.
//   - A drain asks PodDisruptionBudgets, as kubectl drain does, and tries again what they forbid (budgets.go).
//   - The claims of a placement are bound or provisioned before their pod is bound, and claims that wait for no
//     consumer at once. Generic ephemeral volumes have claims as long as their pod exists. A claim whose request
//     grows is expanded, with its volume.
//   - ResourceQuotas refuse pods. A refused pod is tried again when a pod of its namespace has gone.
//   - A group that the workload created is deleted with its last member.
//   - The pods of a Job come at its parallelism until its completions are reached.
//   - Pods that were preempted, lost with their node or evicted come again, if Options.Requeue says so (again.go).
//   - No two pods of one name exist at once: a pod waits until its predecessor has ended.
//
// It does not model these:
//
//   - the time that a bind, a start or a graceful deletion takes;
//   - the back-off of controllers, and the failures after which a Job gives up;
//   - the status of PodDisruptionBudgets, which preemption reads: it stays as the workload gives it.
//
// Resume continues a simulation of which only the log is left: a new Cluster receives the effects in the log, and
// reaches the state of the old one.
//
// The package never decides where a pod runs, never opens or writes a log, reads no file and prints nothing. Plans
// come from package sim/workload, and the counts of a simulation go to package sim/report.
//
// Start reading at Scheduler (what a simulation drives), then Cluster.Run (the loop).
package sim
