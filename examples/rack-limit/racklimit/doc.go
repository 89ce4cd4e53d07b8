// Package racklimit is a scheduler plugin: it limits the number of pods of one app on a rack, and prefers the racks
// with the fewest.
//
// It is written against kube-scheduler's framework alone (k8s.io/kube-scheduler/framework): it works the same in
// rollcall and in kube-scheduler 1.37. Rollcall has one further requirement on a plugin, which is good for any plugin:
// its answers are a function of its inputs. It reads no clock, uses no random numbers, and no answer depends on the
// order of a map. So the log of a cluster can be decided again and gives the same decisions.
//
// Start reading at New in racklimit.go; hints.go says when a refused pod is tried again.
package racklimit
