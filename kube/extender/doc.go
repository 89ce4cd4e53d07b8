// Package extender asks HTTP extenders, with the wire types of k8s.io/kube-scheduler/extender/v1. They say which nodes
// are for a pod (filter), how good they are (prioritize), and which pods may be evicted for it (preempt). They may also
// bind a pod.
//
// It owns the calls and the checks of the answers. Extenders are asked as kube-scheduler asks them: the filters one
// after the other, each about the nodes that the earlier ones have left, then all that prioritize at the same time. A
// server's answer is not trusted. It has a limit in bytes and in time, and a node that was not asked about makes it an
// error. Reasons are shortened, scores bounded. Whatever goes wrong is a part of the answer (eventlog.ExtenderAnswer).
// Package scheduler decides its consequences, in the cycle that uses the answer, and in any replay.
//
// The package decides nothing, keeps nothing between calls, and logs nothing.
//
// Start reading at Client.Ask.
package extender
