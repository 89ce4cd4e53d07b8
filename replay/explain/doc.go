// Package explain answers why a pod, a gang or a CompositePodGroup is where it is at a point of a log: functions Pod,
// Group and Composite.
//
// A log records what was decided and not why each node was refused or scored. So an answer is made in two readings of
// the log, which package history does:
//
//  1. The scan (scan.go) takes the selected entries up to the point in question, without a Machine. It finds out
//     whether there is such a pod or gang, and which decisions on it are worth explaining.
//  2. The rerun (rerun.go) visits the states from before all of that to the point in question. Before a decision that
//     is worth explaining it runs that one cycle again with a trace (decision.go). On the way a gangHistory watches
//     what each entry changes for the gang: attempts, milestones, the reason. It says which states it needs to see.
//
// The package owns what an explanation looks for, the codes of reasons (reason_code.go), and the sentence that says a
// reason (sentences.go), of the words of package phrase. What it found is a value of package answer, which has a JSON
// form; package render writes that value for people.
//
// It never reads a log but through package history, never writes to one, and never changes a Machine that is not its
// own. What comes after the point in question takes no part in an answer. If a binary decides otherwise than was
// recorded, what was recorded is explained, and the answer says so.
//
// Start reading at Group in group.go, then gang_history.go; for single pods at Pod in pod.go.
package explain
