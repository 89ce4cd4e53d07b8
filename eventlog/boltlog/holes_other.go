//go:build !linux

package boltlog

import "os"

// skipHole returns at: the system does not report holes.
func skipHole(_ *os.File, at int64) int64 { return at }
