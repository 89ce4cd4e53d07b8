// Package merkle is the hash tree over a log's entries: what makes it possible to prove of one entry, or of an
// earlier state of the log, that it is part of a later one without showing the rest.
//
// It owns what a leaf is and how a tree grows. The tree is that of RFC 6962 (Certificate Transparency), with
// the hashes of golang.org/x/mod/sumdb/tlog, whose proofs fit it: leaf n-1 is the hash of entry n's record in
// the log's chain (eventlog.HashRecord). It never reads a log, keeps no more than about sixty hashes, and
// signs nothing: that is package proof's.
//
// Start reading at Tree.
package merkle
