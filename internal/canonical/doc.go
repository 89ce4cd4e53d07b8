// Package canonical owns the form in which state is written down for digests and snapshots: integers as
// varints (signed ones in zigzag form), text and bytes behind their length, lists behind their count.
//
// It never knows what the fields mean: the packages that own the state write it with the functions here and
// read it back with Reader, which trusts nothing: no input makes it panic or allocate more than the input's
// size accounts for.
//
// Start reading at Reader.
package canonical
