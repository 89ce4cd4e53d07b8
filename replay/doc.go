// Package replay asks a log questions: would the same decisions be made again (Verify), and why was this one
// made (ExplainPod, ExplainGroup). It reads entries and builds Machines of its own; it never writes, and
// nothing it does has an effect outside the process.
//
// Start reading at Verify.
package replay
