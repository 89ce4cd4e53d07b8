//go:build invariants

package throughput

// cyclesEach is the largest number of times that a cycle is run: with the invariants' checks on, some are decided
// twice and compared.
const cyclesEach = 2
