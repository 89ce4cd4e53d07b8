// Package eventlog is the log that Rollcall is built on: what an entry is, how it is written, and what a log must do.
//
// It owns
//
//   - the entries (entry.go, decision.go), the resources whose objects they carry (resource.go, registry.go), and
//     what of an object is logged at all (trim_fields.go);
//   - the record format (codec.go), a decoder that remembers what pods have in common (decoder.go), and the public
//     form of an entry as a line of JSON (json.go);
//   - the contract of a log (log.go): the interfaces to append, to read and to follow, their errors (errors.go), and
//     how much one append takes (limit.go);
//   - what all logs have in common, so that a backend only has to keep bytes: encoding and chaining a batch and
//     checking the chain (chain.go), a place in a log and the hash tree there (origin.go, package merkle), waiting
//     for what becomes durable (follow.go), and what became of an append of unknown outcome (Attempt);
//   - the log in memory (memlog.go).
//
// It never decides anything, never asks the time, and keeps nothing beside the entries. Package logtest has the tests
// that every log passes; package boltlog is a log in files; package logs opens logs by their names.
//
// Two promises rest on this package. A record that DecodeRecord accepts is written back byte for byte, so that a
// log's hashes stay true however often it is copied; and only the fields that scheduling reads reach a record, so
// that no secret of a pod does.
//
// Start reading at Entry, then Log; then codec.go for the bytes.
package eventlog
