// Package histories tests the promises of docs/HA.md. Two and three schedulers share a log in NATS JetStream.
// Meanwhile their processes and the servers are killed and suspended, links are cut one way and both, disks become
// full, and the stream's leader moves. Each run is a history: it follows a plan, everything observable is recorded,
// and a checker finds violations at the end.
//
// It owns the plans (Written, Random), their execution (Make), and the checker (Check). It has no part of the
// scheduler: the processes run this test binary (TakeRole), with the parts of "rollcall run": eventlog/jetstream,
// engine.Standby, live, kube/watch and kube/effect. It adds nothing to them that keeps two schedulers apart: the lease
// is a hint of the test, and lies when a plan says so.
//
// # The processes
//
//   - Three processes of nats-server, in a cluster, each with a store of its own; some have disks that become full.
//   - Two or three schedulers, each on standby until the lease says that it may lead. One that ends is started again.
//   - The virtual cluster (cluster.go), in the test's process: the part of an API server that they need. Nodes, pods
//     and gangs come and go in it (workload.go).
//   - A link (link.go) for each two of them that talk: a proxy that holds the data of one direction or both, or breaks
//     connections. Held data arrives once the link is repaired, even from a dead sender.
//   - Or, where the plan says Networked, a network of real hosts (network_linux.go): each is a network namespace, and
//     the router drops packets.
//
// # Recording and checks
//
// A scheduler notes in a file, before it continues, each acknowledged append, each entry that it reads, and each
// effect that it releases. The cluster records its requests. When all faults are over there is room for everything,
// and when everything is placed the log is read. The rules of check.go must hold.
//
// The same seed gives the same workload and the same faults at the same times, counted from the first bind. Their
// effect depends on the machine: a history that failed may have to be repeated more than once.
//
// Start reading at Plan (history.go), then plans.go, mishaps.go and check.go.
package histories
