// Package events tells what happened in a range of a log, in order: nodes that joined, were lost or cordoned, gangs and
// pods that came, waited, were placed, preempted, lost or ended.
//
//	list := events.NewList(events.Filter{Gang: "ml/train"}, func(e *events.Event) error { … })
//	reading := events.NewReading(log, list)             // log is a *history.Log
//	err := reading.Range(ctx, events.Range{First: 3000, Last: 4000})
//
// An event is a value with a JSON form, and Message is its sentence. It has the words and the codes of package explain,
// which judges each entry on the state before it. Two parts make the events:
//
//  1. A watcher (watch.go, node.go, gang.go) sees each entry with the states before and after it. Its events follow
//     from those alone. So a range has the events that the whole log has there.
//  2. A List (list.go) drops the events that a Filter does not ask for, folds equal ones, and names causes. A cause
//     comes before its effects. The List knows causes within the range only.
//
// The states come from package history: the first one from a snapshot where there is one. With the name of a gang or a
// pod in the Filter, and an index, only the entries that concern it are read.
//
// The package never writes to a log and never opens one. It does not explain: package explain does.
//
// Start reading at Event in event.go, then List in list.go and Range in read.go.
package events
