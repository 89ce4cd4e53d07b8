// Package proof is what an auditor holds in hand: signed checkpoints of a log, and proofs about it that are checked
// with a public key alone, without the log.
//
// It owns three formats and what they mean:
//
//	keys         those of golang.org/x/mod/sumdb/note, Ed25519
//	checkpoints  signed notes, as C2SP's tlog-checkpoint has them: of which log, how many entries, and the
//	             root of the hash tree over them (package merkle)
//	proofs       JSON: that one entry is in the log of a checkpoint (inclusion), that the log of one
//	             checkpoint is the beginning of that of a later one (consistency), by RFC 6962, or by which
//	             entries of the log of a checkpoint a pod came to its node (placement)
//
// It never writes a file, never trusts what it was not given a key for, and never says about a log whether what is in
// it is true: only whether it was changed.
//
// Start reading at Proof.Check; then Prover, which makes what is checked there.
package proof
