// Package ledger books the resource-time of a log: who held it, what became of it, and why the rest was idle.
//
//	r, err := ledger.Resolve(ctx, log, ledger.Span{From: &from, To: &to}) // what the flags mean in the log
//	l, err := ledger.Make(ctx, source, ledger.Options{Range: r, By: by, Workers: 2})
//	err = l.WriteText(os.Stdout, "")
//
// Each node's resource-time is booked exactly once, in one Column. For each resource, and over any partition of time
// and of groups, these sums are equal, without rounding:
//
//	Capacity = Useful + LostPreempted + LostFailed + LostWithGang + Incomplete - Overcommitted + Unavailable + Idle…
//
// The sums are of resource units times nanoseconds, in 128 bits.
//
// The state changes only at entries. So the book looks at it once for each instant of the log, and there only at the
// nodes, gangs and entities that the instant's entries changed. The causes of unusable room are remembered for each
// kind of pods that waits (split.go). A log with snapshots is booked in parts at a time, and the result is the same.
//
// The column of a pod's time is known only at its end. The time is kept with the pod until then, also beyond the end
// of the range: the column is the one that the whole log tells.
//
// With Options.Edges the same sums are kept for each bucket of time as well. A bucket equals a ledger of its time.
//
// The package never writes to a log, and decides nothing.
//
// Start reading at Make in make.go, then book in book.go.
package ledger
