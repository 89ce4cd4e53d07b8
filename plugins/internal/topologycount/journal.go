package topologycount

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// journal has the last changes of pods. Each has a number; changes[0] has the number first.
type journal struct {
	changes []change
	first   uint64
}

// change says that a pod of the kind came to the node (+1), or went (-1).
type change struct {
	node *v1.Node
	kind int32
	by   int32
}

// minChanges changes are kept at least, and at least twice as many as there are nodes. Counts that were not used while
// more happened count all pods again.
const minChanges = 1024

// end returns the number of the next change.
func (j *journal) end() uint64 { return j.first + uint64(len(j.changes)) }

// after returns the changes from the number on; ok is false if some of them are no longer there.
func (j *journal) after(number uint64) (changes []change, ok bool) {
	if number < j.first {
		return nil, false
	}
	return j.changes[number-j.first:], true
}

// trim forgets the oldest changes if there are too many for so many nodes.
func (j *journal) trim(nodes int) {
	if keep := max(minChanges, 2*nodes); len(j.changes) >= 2*keep {
		j.first += uint64(len(j.changes) - keep)
		j.changes = slices.Clone(j.changes[len(j.changes)-keep:])
	}
}

// forgetAll forgets all changes. Their numbers are not used again.
func (j *journal) forgetAll() { j.first, j.changes = j.end(), nil }
