// Package replaytest is test support: it records the log of a whole simulation, with snapshots, for the tests of
// package replay and of its folders. A log that a test writes line by line is a transcripts.Player.
//
// The package asks nothing of a log that it wrote.
//
// Start reading at Record.
package replaytest
