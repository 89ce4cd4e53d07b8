// Package engine is the one writer: it stamps inputs with the next sequence numbers and a time that never
// goes back, applies them to the Machine, lets it decide until nothing is left, has all of that made durable,
// and only then gives out the effects of the decisions.
//
// It is a pipeline of two. The caller's goroutine takes in and decides; beside it a writer (writer.go) appends what it was
// handed, all that has come meanwhile at once. Step waits for the writer; Advance does not, and gives out what has become
// durable since. What is decided depends on neither: the same inputs at the same times are the same log, byte for byte,
// and where one append ends and the next begins cannot be seen in it. After an append that failed nothing is given out any
// more. Only who asks for it (Release) has effects of decisions that are not durable: a simulation, whose world stands
// nowhere but in that log.
//
// What the writer reads of an entry nobody changes: its header, and its payload's encoding, which was made when the entry
// was taken in. The payload is the Machine's from then on.
//
// The package never talks to a cluster and reads no clock: inputs, time and effects go through whoever calls Step or
// Advance, which is package sim for a virtual cluster.
//
// Recovery is Open: the newest snapshot that can be trusted is restored, the entries after it, or the whole log
// if there is none, are read into the Machine by the same Apply, and a new epoch begins.
//
// Start reading at Step.
package engine
