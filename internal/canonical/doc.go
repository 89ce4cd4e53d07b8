// Package canonical owns the binary form of state in digests and snapshots: integers as varints (signed ones in zigzag
// form), text and bytes after their length, lists after their count.
//
// It never knows the meaning of the fields. The packages that own the state write it with the functions here and read
// it back with Reader. Reader trusts nothing: no input makes it panic, or allocate more than a fixed multiple of the
// input's size.
//
// Start reading at Reader.
package canonical
