// Package auditor checks the log of a simulation by its own means. It reads the lines that `rollcall log cat` prints
// and the files that the simulation was given, and nothing else: it imports the standard library only, and shares no
// code with the scheduler, its plugins, its log or its simulator. So an error of theirs is not repeated here.
//
// It is written for clarity, not for speed: it keeps every node and pod as the log tells about them, and for each
// placement asks again, over all nodes and pods, whether it was allowed. A world of 30 nodes and 80 pods takes
// milliseconds.
//
// What is wrong with a log is a list of Findings, each by the name of a check. Checks lists them, and the Report
// counts how often each of them had something to look at: a check that never had is no evidence.
//
// The auditor never looks at scores: which of the nodes that are allowed a pod goes to is not its business.
//
// Start reading at auditor.go (the loop), then state.go (what is known), placement.go (what forbids a node), gangs.go,
// lane.go, preemption.go, and end.go.
package auditor
