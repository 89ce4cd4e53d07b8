//go:build !invariants

package scheduler

// invariants is set by the build tag of the same name.
const invariants = false
