// Package kubesched is for tests: it is kube-scheduler as far as decisions go, to compare ours with. A Scheduler has
// kube-scheduler's own framework runtime, plugins, assume caches and preemption. The objects of a cluster are put into
// it one after the other, and what its plugins write in PreBind is kept instead of sent to an API server.
//
// It imports nothing of ours, so that both sides have no more in common than the objects. Left out are the queue,
// extenders, PostFilter of DynamicResources (see docs/ARCHITECTURE.md) and the binding itself. Two things are left to
// chance in kube-scheduler that are not here: listers go by name and not by the order of a map, and all nodes are
// filtered, scored and considered for preemption.
//
// Start reading at scheduler.go.
package kubesched
