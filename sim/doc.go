// Package sim is the edge that needs no Kubernetes: a virtual cluster on a virtual clock, and the readers of
// the workloads that run on it.
//
// # The virtual cluster
//
// A Cluster owns what the API server, the kubelets and the controllers would own. It turns its world into
// inputs (a node joins, is cordoned, fails; a pod arrives, ends) and the effects of decisions into its world
// (a bind starts the pod, an eviction ends it). It drives a Scheduler from one virtual instant to the next
// with no wall clock, no goroutine and no chance: the same plans give the same inputs, bit for bit.
//
// What it models: pods run from the instant they are bound for their planned duration and are then deleted;
// nodes join, fail and are cordoned at planned offsets; a failing node takes its pods with it at once; claims
// that a placement settles are bound or provisioned before their pod is; a group that the workload created is
// deleted with its last member; a Job's pods come at its parallelism until its completions are reached.
//
// What it does not model: time that a bind, a start or a graceful deletion takes; the replacement of pods that
// were lost with their node or evicted; claims of a storage class with immediate binding (give them bound);
// taints that a node controller would add.
//
// A simulation of which only the log is left goes on with Resume: a new Cluster is told again what the log says,
// and comes to where the old one was.
//
// # The readers
//
// ReadNodes and ReadWorkload tell formats apart by what stands in the file, never by its name: Kubernetes
// YAML and JSON, the two CSV files of the Alibaba "openb" GPU trace, the Standard Workload Format, and
// exports of Rollcall's own log. Readers are strict: what is not understood stops with file, line and reason.
//
// The package never decides where a pod goes, never writes a log, and prints nothing but what a Summary is
// asked to. Start reading at plan.go (what a simulation is made of), then cluster.go (the loop).
package sim
