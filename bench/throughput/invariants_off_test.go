//go:build !invariants

package throughput

// cyclesEach is how often each cycle is run.
const cyclesEach = 1
