// Package auditor checks the log of a simulation independently. It reads only the lines that `rollcall log cat` prints
// and the input files of the simulation. It imports the standard library only, and shares no code with the scheduler,
// its plugins, its log or its simulator. So it does not repeat their errors.
//
// It is written for clarity, not for speed: it keeps every node and pod in the log, and for each placement checks
// again, over all nodes and pods, whether it was allowed. A world of 30 nodes and 80 pods takes milliseconds.
//
// The faults of a log are a list of Findings, each with the name of a check. Checks lists them, and the Report counts
// the number of times that each of them had something to check: a check that never had is no evidence.
//
// The auditor never reads scores: it does not judge the choice among the allowed nodes.
//
// Start reading at auditor.go (the loop), then state.go (the known state), placement.go (the rules for nodes),
// gangs.go, lane.go, preemption.go, and end.go.
package auditor
