// Package histories tries what docs/HA.md promises: two and three schedulers share a log in NATS JetStream while their
// processes and those of the servers are killed and suspended, links are cut one way and both, disks become full, and
// the stream's leader moves. Each try is a history: it is made of a plan, everything that was seen is recorded, and a
// checker looks for violations when it is over.
//
// It owns the plans (Written, Random), what makes them happen (Make), and the checker (Check). It has no part of the
// scheduler: the processes are of this test binary (TakeRole) and run what "rollcall run" is made of:
// eventlog/jetstream, engine.Standby, live, kube/watch and kube/effect. It adds nothing to them that keeps two
// schedulers apart: the lease is a hint of the test, and lies when a plan says so.
//
// # Who takes part
//
//   - Three processes of nats-server, in a cluster, each with a store of its own; some have disks that become full.
//   - Two or three schedulers, each on standby until the lease says that it may lead. One that ends is started again.
//   - The virtual cluster (cluster.go), in the test's process: as much of an API server as they ask for. Nodes, pods
//     and gangs come and go in it (workload.go).
//   - A link (link.go) for each two of them that talk: a proxy that holds what is sent one way or both, or breaks
//     connections. What was held arrives once the link is mended, even from the dead.
//   - Or, where the plan says Networked, a network of real hosts (network_linux.go): each is a network namespace, and
//     the router drops packets.
//
// # What is recorded, and checked
//
// A scheduler notes in a file, before it continues, each append that was acknowledged, each entry that it was given to
// read, and each effect that it gives out. The cluster records what it was asked for. When all faults are over there
// is room for everything, and when everything is placed the log is read as it stands. The rules of check.go must hold.
//
// The same seed is the same workload and the same faults at the same times, counted from the first bind. What they hit
// depends on the machine: a history that failed may have to be made more than once.
//
// Start reading at Plan (history.go), then plans.go, mishaps.go and check.go.
package histories
