// Package proof makes and checks the evidence that an auditor keeps: signed checkpoints of a log, and proofs about the
// log. A public key is enough to check them, without the log.
//
// It owns three formats and their meaning:
//
//	keys         the keys of golang.org/x/mod/sumdb/note, Ed25519
//	checkpoints  signed notes in the form of C2SP's tlog-checkpoint: the log's name, its number of entries, and
//	             the root of the hash tree over them (package merkle)
//	proofs       JSON: one entry is in the log of a checkpoint (inclusion); the log of one checkpoint is the
//	             beginning of the log of a later one (consistency), by RFC 6962; or the entries of the log of a
//	             checkpoint with which a pod came to its node (placement)
//
// It never writes a file, and trusts only the keys it was given. It never says whether the contents of a log are true:
// only whether the log was changed.
//
// Start reading at Proof.Check; then Prover, which makes the proofs.
package proof
