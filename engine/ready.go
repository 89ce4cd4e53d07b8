package engine

import (
	"time"

	"github.com/rollcall-sched/rollcall/scheduler"
)

// Ready has everything that has become due since the call before: durable entries, effects to carry out, effects to
// leave out, and the time of the next call. Each call of Step, Advance, Note, Await and Sync returns one. Nothing of it
// comes again in a later Ready, except Withdrawals. The package comment has the contract with the caller.
//
// For example, Advance takes in two pods that fit, as entries 7 and 8, and decides on them, as entries 9 and 10. While
// these are being written, its Ready is empty. The next one has a Commit with entries 7 to 10, and two Effects that
// bind the pods.
type Ready struct {
	// Commits are the appends that have succeeded, in order.
	Commits []Commit
	// Effects are the effects that must be carried out, in the order of their decisions. Every one is of a decision in
	// Commits, or in an earlier Ready's, or from before Open. Only with WhenDecided may the decision be in a later
	// one's.
	Effects []Effect
	// Withdrawals are the evictions, of this Ready or an earlier one, that nobody waits for any more. A withdrawal
	// comes with every Ready until the result of the eviction is taken in.
	Withdrawals []Withdrawal
	// Wake is the time at which time alone will make work; the zero time if it never will.
	Wake time.Time
	// Busy says that the call stopped at Options.Decisions: there may be more to decide now.
	Busy bool
	// State is the state after the last entry that was taken in, which may not be durable yet. The driver itself does
	// not need it. It is for code that shows the decisions to people.
	State *scheduler.Machine
}
