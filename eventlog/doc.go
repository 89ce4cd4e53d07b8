// Package eventlog is the log that Rollcall is built on: the entries, their bytes, and the contract of a log.
//
// It owns
//
//   - the entries (entry.go, decision.go), the resources whose objects they carry (resource.go, registry.go), and the
//     fields of an object that are logged at all (trim_fields.go);
//   - the record format (codec.go), a decoder that remembers the parts that pods share (decoder.go), and the public
//     form of an entry as a line of JSON (json.go);
//   - the contract of a log (log.go): the interfaces to append, to read and to follow, their errors (errors.go), and
//     the size of one append (limit.go);
//   - the parts that all logs share, so that a backend only has to keep bytes: the chain (chain.go), a place in a log
//     with its hash tree (origin.go, package merkle), the wait for durable entries (follow.go), and the outcome of an
//     append (Attempt);
//   - the log in memory (memlog.go).
//
// It never decides anything, never asks the time, and keeps nothing beside the entries. Package logtest has the tests
// that every log passes; package boltlog is a log in files; package logs opens logs by their names.
//
// This package keeps two promises. Encoding an accepted record gives the same bytes: a log's hashes stay true however
// often it is copied. Only the fields that scheduling reads reach a record: no secret of a pod does.
//
// Start reading at Entry, then Log; then codec.go for the bytes.
package eventlog
