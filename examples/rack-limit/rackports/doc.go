// Package rackports is a scheduler plugin with a memory: a pod that asks for one is given a port of the switch of its
// rack. The port is chosen in Reserve, and kept until Unreserve or until the pod is gone. Pods of a pair wait in Permit
// for each other. What takes time is done in the binding cycle, in PreBind and PostBind.
//
// Like racklimit it is written against kube-scheduler's framework. Two methods more, AppendState and RestoreState, let
// rollcall write the memory into snapshots: without them a log of the plugin would be read from its first entry at each
// start.
//
// Start reading at New in rackports.go; binding.go has the binding cycle, and memory.go the snapshots.
package rackports
