//go:build invariants

package preemption

// invariants has answers that spare work checked against the work.
const invariants = true
