// Package effect carries out what decisions ask for, by calls to the API server, and reports the results.
//
// It receives effects whose decisions are durable (Effects.Carry), and returns inputs for the log (Effects.Take). It
// never decides anything and never looks at the scheduler's state. Read carry.go first, and effects.go for the life of
// an effect. Then read bind.go and evict.go: each is a chain of steps, and each step makes the calls of one stage.
//
// Promises:
//
//   - A bind has one result, and it states the outcome at the API server. Only the answer 201 is trusted without a
//     check. After any other answer, or none, the pod is read back (look in bind.go), and its UID and node are
//     compared. While it cannot be read, there is no result: the capacity stays reserved.
//   - Every call has the pod's UID as a precondition. A pod that took over the name is neither bound nor deleted.
//   - The effects of one pod are carried out one after the other.
//   - An effect may be asked for again, after a restart. A step that was done already is seen, and not done twice.
//   - Nothing waits on the caller's goroutine. Whatever waits for time, or for others, takes no worker.
package effect
