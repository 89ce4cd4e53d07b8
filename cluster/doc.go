// Package cluster has the state of the cluster: nodes, pods with the capacity that they hold, gangs, and the other API
// objects that plugins read. It is rebuilt from entries alone. Package scheduler changes it, with the methods of State,
// while it applies an entry.
//
// It never decides anything, reads no clock, starts no goroutine and does no I/O. Plugins see the cluster through it:
// State is their SharedLister, and Informers feeds their listers and event handlers synchronously from the log.
//
// Start reading at State in state.go. nodes.go, pods.go and gangs.go are its parts; pod.go has the life of a pod,
// group.go the counts of a gang.
package cluster
