// Package snapshot owns a Machine written down at a sequence number: the format, what it takes to trust one
// again, and a directory that keeps the last few, and older ones at a distance.
//
// It never reads a log: where in the log's chain a snapshot belongs is told by whoever writes it (Capture) and by
// whoever restores it (Series.Position). A snapshot saves time and is never the truth: without it, the whole log
// says the same. It has no goroutine and no clock: when a snapshot is due, and that only its Capture need be
// waited for, is the engine's business.
//
// Start reading at Capture, then Series.
package snapshot
