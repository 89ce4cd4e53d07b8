// Package redact replaces the names in a range of a log by pseudonyms, so that the range can be given away.
//
// It owns the choice of pseudonyms (names.go), the list of texts that are kept (keep.go), and the proof that decisions
// do not change (lockstep.go). The scheduler decides the redacted entries again. Each decision must be the recorded one
// under other names. A result that differs anywhere is an error.
//
// Pseudonyms sort as the names do, because decisions break ties by names. A text that is not on the list of kept texts
// is replaced, wherever it is. Messages of the API server are dropped. Reasons of plugins are the ones that the
// redacted decision gives, so they can have no other names than pseudonyms.
//
// It never changes the log that it reads, and writes the redacted entries to a temporary log only.
//
// Start reading at Redact.
package redact
