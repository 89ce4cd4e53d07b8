//go:build !invariants

package throughput

// cyclesEach is the number of times that each cycle is run.
const cyclesEach = 1
