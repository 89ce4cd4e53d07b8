// Package audit signs what a log is, proves entries of it and that it only grew, and checks such proofs without the
// log: what a party needs that trusts neither the other's disk nor its word.
//
// It owns the files that pass between the parties, keys and checkpoints and proofs, and the rule that nothing is signed
// or proven of a log up to an end which is known to be damaged. The mathematics is package proof's. It never changes a
// log, and never reads more of a file that another party made than a limit.
//
// Start reading at Checkpoint and Claim.Prove, then Check.
package audit
