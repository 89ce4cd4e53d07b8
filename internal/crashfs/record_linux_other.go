//go:build linux && !amd64

package crashfs

// oldCalls are calls that this architecture does not have.
var oldCalls map[uint64]uint64
