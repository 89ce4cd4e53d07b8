// Package engine is the one writer of a log. It stamps inputs with the next sequence numbers and a time that never goes
// back, applies them to the Machine, lets it decide until nothing is left, has all of that made durable, and only then
// gives out the effects of the decisions.
//
// It is a pipeline of two. The caller's goroutine takes inputs in and decides. Beside it a writer (writer.go) appends
// what it was handed, with everything that has come meanwhile in one append. Step waits for the writer. Advance does
// not: it gives out what has become durable since the last call. The decisions depend on neither: the same inputs at
// the same times are the same log, byte for byte, and the log does not show where one append ends and the next begins.
// After an append that failed nothing is given out any more. Effects of decisions that are not durable are given out
// only on request (Release): to a simulation, whose world exists in that log alone.
//
// What the writer reads of an entry nobody changes: its header, and its payload's encoding, which was made when the
// entry was taken in. The payload is the Machine's from then on.
//
// An observer (Options.Observe) receives the entries as they become durable: every entry once, in order and without a
// gap (Commit in observe.go).
//
// The package never talks to a cluster and reads no clock: inputs, time and effects go through the caller of Step or
// Advance, such as package sim for a virtual cluster. Options.Clock is the caller's too.
//
// Recovery is Open: the newest snapshot that can be trusted is restored, the entries after it, or the whole log if
// there is none, are read into the Machine by the same Apply, and a new epoch begins.
//
// Start reading at Step.
package engine
