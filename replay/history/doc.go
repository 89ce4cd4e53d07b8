// Package history reads a log to answer questions about it. It gives the state after an entry, and the entries that
// name an object, from a directory, a stream, a bundle, a running scheduler or memory.
//
//	log := history.New(source, history.Options{})          // source is a *logs.Source, or Plain(reader, registry)
//	p, err := log.Resolve(ctx, &moment)                    // the entry that --at 14:03 means
//	m, err := log.At(ctx, p.Seq)                           // the state after it; the Machine is the caller's own
//	for e, err := range log.Entries(ctx, history.Query{    // the entries that name the pod, and no others
//		Keys: []index.Key{index.UID(uid)}, Kinds: []eventlog.Kind{eventlog.KindDecision}}) {
//	}
//	t, err := log.Tally(ctx)                               // entries by kind, objects by resource, the epochs
//
// Some questions learn names while they read: a pod has nodes and a gang. Such a question selects its entries in three
// steps. Log.Select finds them by names, and the question adds names. Selection.Entries reads them without a Machine.
// Selection.Visit then shows a Visitor the states between them.
//
// The package owns the decision which entries are not read. A log with an index is read by names. Between two selected
// entries a visit may continue from a snapshot instead of applying entries. The Visitor says, after each state, which
// entries it needs. The answers are the same bytes without index and snapshots. ErrTooNarrow asks for the whole log.
// A Log may keep Machines to begin with (Options.Keep). It returns copies, so a caller may change its Machine.
//
// A log may begin after entry 1, because the entries before are archived or trimmed. Its first state is then the state
// of a snapshot. Extent returns the range that can be read, and the reason why there may be more entries. Errors name
// the entry. Damage ends an answer where reading the whole log would end. Damage between entries that are not read
// stays unseen: package logs/verify searches for it.
//
// The package never writes, and never opens a log: package logs does. It does not interpret entries. A Log is not safe
// for concurrent use.
//
// Start reading at Log in log.go, then Selection in selection.go and Visit in visit.go.
package history
