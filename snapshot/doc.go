// Package snapshot stores a Machine's state as of one log entry, and restores it. It has the format, the checks that
// make a snapshot trustworthy again, and a directory that keeps the last few, and older ones at a distance.
//
// It never reads a log. The writer (Capture) and the restorer (Series.Position) give a snapshot's position in the log's
// chain. A snapshot saves time and is never the truth: without it, the whole log says the same. It has no goroutine and
// no clock: the engine decides when a snapshot is due, and waits for its Capture only.
package snapshot
