// Package kubesched is for tests: it is kube-scheduler as far as decisions go, to compare ours with. A Scheduler has
// kube-scheduler's own framework runtime, plugins, assume caches and preemption. The objects of a cluster are put into
// it one after the other, and what its plugins write in PreBind is kept instead of sent to an API server.
//
// It imports no package of Rollcall, so that both sides share only the objects. Left out are the queue, extenders,
// PostFilter of DynamicResources (see docs/ARCHITECTURE.md) and the binding itself. Kube-scheduler makes two random
// choices that this package does not make. Listers go by name and not by the order of a map. All nodes are filtered,
// scored and considered for preemption.
//
// Start reading at scheduler.go.
package kubesched
