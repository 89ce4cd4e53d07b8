// Package eventlog is the log that Rollcall is built on: what an entry is, how it is written, and what
// a log must do.
//
// It owns the entries (entry.go, decision.go), the resources whose objects they carry (resource.go,
// registry.go), what of an object is logged at all (trim_fields.go), the record format (codec.go), the
// public form of an entry as a line of JSON (json.go), the Log interface (log.go) and the log in memory
// (memlog.go). It never decides anything, never asks the time, and keeps nothing beside the entries.
//
// Two promises rest on this package. A record that DecodeRecord accepts is written back byte for byte, so
// that a log's hashes stay true however often it is copied; and only the fields that scheduling reads
// reach a record, so that no secret of a pod does.
//
// Start reading at Entry, then Log; then codec.go for the bytes.
package eventlog
