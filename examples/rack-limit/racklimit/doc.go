// Package racklimit is a scheduler plugin: it limits how many pods of one app a rack has, and prefers the racks that
// have the fewest.
//
// It is written against kube-scheduler's framework alone (k8s.io/kube-scheduler/framework): what it does in rollcall it
// does in kube-scheduler 1.37 as well. Rollcall asks one thing more of a plugin, which is good for any plugin: what it
// answers is a function of what it is shown. It reads no clock, draws nothing by chance, and lets the order of no map
// reach an answer. So the log of a cluster can be decided again and gives the same decisions.
//
// Start reading at New in racklimit.go; hints.go says when a pod that was refused is tried again.
package racklimit
