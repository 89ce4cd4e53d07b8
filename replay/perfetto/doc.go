// Package perfetto writes a range of a log as a trace for the Perfetto viewer (ui.perfetto.dev) and chrome://tracing.
//
//	err := perfetto.Write(ctx, log, perfetto.Range{After: 3000, Last: 4000, End: end}, w) // log is a *history.Log
//
// The trace has these groups of tracks:
//
//   - Cycles: an instant for each Decision, with its outcome and the refusals.
//   - Queue: the numbers of entities in each state of the queue.
//   - Gangs: a track for each gang with a slice for each of its stages.
//   - Nodes: the pods that hold room on each node, and the events of the node. A node has as many tracks as it holds
//     pods at a time. Within a pod's slice is one for the time at Permit, and one for the binding.
//   - Cluster: events that concern no single node, with the words of "rollcall events".
//
// Times are microseconds since 1970, with three decimals. The trace follows from the log alone: the same range of the
// same log gives the same bytes. Its form is the Trace Event Format in JSON, which both viewers read. It was taken
// instead of Perfetto's protocol buffers because every JSON tool reads it too.
//
// Start reading at Write in write.go.
package perfetto
