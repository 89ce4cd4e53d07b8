// Package replay verifies a log: it makes every recorded decision again and compares.
//
//	report, err := replay.Verify(ctx, log.Read(ctx, 1), replay.Options{Registry: registry})
//	// err: the log could not be read; report.Divergences: where it was decided otherwise
//
// The package owns that comparison, and the words for its result: Report and Divergence. For each entry it asks a
// Machine of its own for the next decision, compares the answer with the recorded one field by field, and then applies
// the recorded one. So one divergence does not become many: what follows is again decided on the recorded state.
//
// It never writes, and nothing that it does has an effect outside of the process. It does not say why a decision was
// made: that is package explain, in the folder below.
//
// Start reading at Verify, then Compare and firstDifference, which compare two decisions.
package replay
