//go:build !invariants

package preemption

// invariants turns on the checks of answers that replace work against the work.
const invariants = false
