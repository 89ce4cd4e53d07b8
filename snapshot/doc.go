// Package snapshot owns a Machine written down at a sequence number: the format, what it takes to trust one
// again, and a directory that keeps the last few.
//
// It never reads a log: where in the log's chain a snapshot belongs is told by whoever writes it and compared
// by whoever restores it. A snapshot saves time and is never the truth: without it, the whole log says the
// same.
//
// Start reading at Encode.
package snapshot
