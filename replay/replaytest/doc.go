// Package replaytest is test support: it writes the logs that the tests of package replay and of its folders read.
//
// A Story is a log that a test writes line by line; a Recording is the log of a whole simulation with snapshots. The
// package asks nothing of a log that it wrote.
//
// Start reading at Story.Line.
package replaytest
