// Package merkle is the hash tree over a log's entries. The tree makes it possible to prove that one entry, or an
// earlier state of the log, is part of a later state, without showing the rest.
//
// It owns the definition of a leaf and the growth of the tree. It is the tree of RFC 6962 (Certificate
// Transparency), with the hashes of golang.org/x/mod/sumdb/tlog, whose proofs fit it. Leaf n-1 is the hash of entry
// n's record in the log's chain (eventlog.HashRecord). The package never reads a log, keeps at most about sixty
// hashes, and signs nothing: package proof does.
//
// Start reading at Tree.
package merkle
