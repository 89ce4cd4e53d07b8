package sim

import (
	"container/heap"
	"time"
)

// eventKind is the kind of an event. Events at one instant happen in the order of these numbers.
type eventKind uint8

const (
	nodeJoins eventKind = iota
	nodeChanges
	podEnds     // its duration is over
	podDeadline // its deadline is reached
	podTainted  // it is evicted, because it does not tolerate a taint of its node any longer
	nodeDrains
	nodeSilent // its kubelet stops to answer
	nodeFails
	objectChanges
	podChanges
	podArrives
)

// event is an event that the virtual cluster causes itself.
type event struct {
	at   time.Duration
	kind eventKind
	// index is the index of the plan: of a node, pod or object, by kind. Plans with equal times keep their order.
	index int32
	// sub is the number of the change of a node or pod.
	sub int32
}

// schedule is the queue of coming events, a heap.
type schedule []event

var _ heap.Interface = (*schedule)(nil)

// Len implements heap.Interface.
func (s schedule) Len() int { return len(s) }

// Less implements heap.Interface; the order is total.
func (s schedule) Less(i, j int) bool {
	a, b := s[i], s[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	if a.index != b.index {
		return a.index < b.index
	}
	return a.sub < b.sub
}

// Swap implements heap.Interface.
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface; use add.
func (s *schedule) Push(x any) { *s = append(*s, x.(event)) }

// Pop implements heap.Interface; use next.
func (s *schedule) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}

// add queues an event.
func (s *schedule) add(e event) { heap.Push(s, e) }

// next removes the earliest event and returns it.
func (s *schedule) next() event { return heap.Pop(s).(event) }
