// Package audit signs the content of a log, proves entries of it and that it only grew, and checks such proofs without
// the log. It is for a party that trusts neither the other's disk nor its word.
//
// It owns the files that pass between the parties: keys, checkpoints and proofs. It owns the rule that nothing is
// signed or proven up to an end of a log which is known to be damaged. The mathematics is package proof's. It never
// changes a log, and never reads more of a file that another party made than a limit.
//
// Start reading at Checkpoint and Claim.Prove, then Check.
package audit
