// Package cluster is what the log has said of the cluster: nodes, pods with the capacity they hold, gangs,
// and the other API objects that plugins read. It is rebuilt from entries alone and changed only by the
// methods of State, which package scheduler calls while it applies an entry.
//
// It never decides anything, reads no clock, starts no goroutine and does no I/O. Whatever plugins may look
// at comes from here: State is their SharedLister, Informers feeds their listers and event handlers
// synchronously from the log.
//
// Start reading at State in state.go; pod.go has the life of a pod, group.go that of a gang.
package cluster
