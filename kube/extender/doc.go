// Package extender asks HTTP extenders, with the wire types of k8s.io/kube-scheduler/extender/v1: which nodes are for a
// pod (filter), how good they are (prioritize), which pods may be evicted for it (preempt), and to bind a pod.
//
// It owns the calls and what may come back. Extenders are asked as kube-scheduler asks them: the filters one after the
// other, each about the nodes that those before have left, then all that prioritize at the same time. What a server
// says is not trusted: an answer has a limit in bytes and in time, a node that was not asked about makes it an error,
// reasons are shortened, scores bounded. Whatever goes wrong is a part of the answer (eventlog.ExtenderAnswer), and
// what it means is decided by package scheduler, in the cycle that uses the answer, and in any replay.
//
// The package decides nothing, keeps nothing between calls, and logs nothing.
//
// Start reading at Client.Ask.
package extender
