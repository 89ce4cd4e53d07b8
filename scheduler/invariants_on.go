//go:build invariants

package scheduler

// invariants turns on checks that cost time: see decideChecked.
const invariants = true
