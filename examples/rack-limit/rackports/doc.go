// Package rackports is a scheduler plugin with a memory: a pod that asks for a port gets one of the switch of its
// rack. Reserve chooses the port, which is kept until Unreserve or until the pod has ended. Pods of a pair wait in
// Permit for each other. Slow work is done in the binding cycle, in PreBind and PostBind.
//
// Like racklimit it is written against kube-scheduler's framework. Two further methods, AppendState and RestoreState,
// let rollcall write the memory into snapshots. Without them a log of the plugin would be read from its first entry at
// each start.
//
// Start reading at New in rackports.go; binding.go has the binding cycle, and memory.go the snapshots.
package rackports
