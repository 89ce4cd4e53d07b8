// Package explain answers why a pod, a gang or a CompositePodGroup is in its state at a point of a log: functions Pod,
// Group and Composite.
//
// A log records the decisions, and not why each node was refused or scored. So an answer is made in two readings of the
// log, which package history does:
//
//  1. The scan (scan.go) takes the selected entries up to the point in question, without a Machine. It finds out
//     whether there is such a pod or gang, and which decisions on it are worth an explanation.
//  2. The rerun (rerun.go) visits the states from before all of that to the point in question. Before a decision that
//     is worth an explanation it runs that one cycle again with a trace (decision.go). On the way a gangHistory watches
//     the changes of the gang: attempts, milestones, the reason. It requests the states that it needs.
//
// The package owns the search for an explanation, the codes of reasons (reason_code.go), and the sentence for a reason
// (sentences.go), in the words of package phrase. The result is a value of package answer, which has a JSON form.
// Package render writes that value for people.
//
// It reads a log only through package history, never writes to one, and never changes a Machine that is not its own.
// Entries after the point in question have no part in an answer. If a binary decides otherwise than the log records,
// the recorded decision is explained, and the answer says so.
//
// Start reading at Group in group.go, then gang_history.go; for single pods at Pod in pod.go.
package explain
