// Package remote finds the scheduler that runs in a cluster, and runs commands in its container: they read its log
// where it is. Of a cluster without one it takes a dump.
//
// Start reading at Find.
package remote
