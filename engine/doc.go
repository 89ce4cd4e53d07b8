// Package engine is the one writer: it stamps inputs with the next sequence numbers and a time that never
// goes back, applies them to the Machine, lets it decide until nothing is left, makes all of that durable in
// one append, and only then gives out the effects of the decisions.
//
// It never talks to a cluster and reads no clock: inputs, time and effects go through whoever calls Step,
// which is package sim for a virtual cluster.
//
// Recovery is Open: the newest snapshot that can be trusted is restored, the entries after it, or the whole log
// if there is none, are read into the Machine by the same Apply, and a new epoch begins.
//
// Start reading at Step.
package engine
