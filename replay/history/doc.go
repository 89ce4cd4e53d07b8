// Package history reads logs for questions: the state after an entry, and the entries that concern something, from
// whatever a log is kept in. Whoever answers a question about a log uses it, and reads the log by nothing else.
//
//	log := history.New(source, history.Options{})          // source is a *logs.Source, or Plain(reader, registry)
//	p, err := log.Resolve(ctx, &moment)                    // the entry that --at 14:03 means
//	m, err := log.At(ctx, p.Seq)                           // the state after it; the Machine is the caller's own
//	for e, err := range log.Entries(ctx, history.Query{    // the entries that name the pod, and no others
//		Keys: []index.Key{index.UID(uid)}, Kinds: []eventlog.Kind{eventlog.KindDecision}}) {
//	}
//	t, err := log.Tally(ctx)                               // entries by kind, objects by resource, the epochs
//
// A question about something whose names are found out on the way, such as a pod, the nodes where it was and its gang,
// selects its entries (Log.Select), reads them once without a Machine (Selection.Entries), and then lets a Visitor see
// the states between them (Selection.Visit).
//
// The package owns the decision of what need not be read. A log with an index is asked by names; between two entries of
// a Selection a visit continues from the newest snapshot instead of applying entries, where the Visitor allows it. The
// answers are the same bytes without index and snapshots. Where they could differ, ErrTooNarrow asks for the whole log.
// A Log may keep Machines to begin with (Options.Keep); it gives out copies of them.
//
// A log need not begin with entry 1: the part before may be archived or trimmed away, and then the first state known is
// that of a snapshot. Extent tells how far a log can be read, and why there may be more. Errors name the entry. Damage
// ends what is read where reading the whole log would end. Damage between entries that are not read is not found:
// package logs/verify looks for that.
//
// Machines, entries and answers are values of their own: what a caller does to a Machine no other caller sees.
//
// The package never writes, never opens a log (package logs does), and knows nothing of what the entries mean to a
// question. A Log is not safe for concurrent use.
//
// Start reading at Log in log.go, then Selection in selection.go and Visit in visit.go.
package history
