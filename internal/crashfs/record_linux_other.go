//go:build linux && !amd64

package crashfs

// oldCalls is empty: this architecture does not have these calls.
var oldCalls map[uint64]uint64
