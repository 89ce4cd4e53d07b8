// Package remote finds the scheduler that runs in a cluster, and runs commands in its container: they read its log
// where it is. It takes a dump of a cluster that has none.
//
// Start reading at Find.
package remote
