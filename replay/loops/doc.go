// Package loops finds pods and gangs in a log that are preempted and restarted in circles.
//
// There are two kinds. In a Circle each entity has evicted pods of the next, and the last one of the first: every one
// of them came again and evicted in its turn. An Again is an entity whose pods were evicted, came again, and whose
// successors were evicted too. The successor of a pod comes in its place: the first pod after the eviction that has the
// same name, or else the same controller, or else the same gang.
//
// The package reads entries and needs no states, apart from the one before the range. It does not ask whether an
// eviction was right: package replay/victims does.
//
// Start reading at Find.
package loops
