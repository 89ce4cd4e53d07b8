// Package kubesched is for tests: it is the part of kube-scheduler that makes decisions, to compare ours with. A
// Scheduler has kube-scheduler's own framework runtime, plugins, assume caches and preemption. A test puts the objects
// of a cluster into it one after the other. The Scheduler keeps the objects that its plugins write in PreBind, and
// sends none of them to an API server.
//
// It imports no package of Rollcall, so that both sides share only the objects. Left out are the queue, extenders,
// PostFilter of DynamicResources (see docs/ARCHITECTURE.md) and the binding itself. Kube-scheduler makes two random
// choices that this package does not make. Here listers go by name and not by the order of a map, and all nodes are
// filtered, scored and considered for preemption.
//
// Start reading at scheduler.go.
package kubesched
