//go:build invariants

package throughput

// cyclesEach is how often each cycle is run: with the invariants' checks on, Decide runs twice and compares.
const cyclesEach = 2
