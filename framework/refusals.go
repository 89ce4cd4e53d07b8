package framework

import (
	"encoding/binary"

	fwk "k8s.io/kube-scheduler/framework"
)

// refusals has the distinct statuses with which the nodes of a memo are refused. Nodes with the same reasons share one
// status. The memo stores a number for each node; 0 means feasible.
type refusals struct {
	list   []*fwk.Status    // list[0] is nil
	nodes  []int64          // by number: the count of its nodes; if 0, the number is free
	byText map[string]int32 // by the result of appendStatus
	free   []int32
	last   int32  // the last number given: neighbours often have the same reasons
	text   []byte // the memory of appendStatus
}

// add counts a node with the status, and returns the status's number, 0 for nil.
func (r *refusals) add(status *fwk.Status) int32 {
	if status == nil {
		return 0
	}
	if r.last == 0 || r.list[r.last] != status {
		r.last = r.number(status)
	}
	r.nodes[r.last]++
	return r.last
}

func (r *refusals) number(status *fwk.Status) int32 {
	r.text = appendStatus(r.text[:0], status)
	if i, ok := r.byText[string(r.text)]; ok {
		return i
	}
	if r.byText == nil {
		r.byText = map[string]int32{}
		r.list, r.nodes = append(r.list, nil), append(r.nodes, 0)
	}
	i := int32(len(r.list))
	if n := len(r.free); n > 0 {
		i, r.free = r.free[n-1], r.free[:n-1]
		r.list[i] = status
	} else {
		r.list, r.nodes = append(r.list, status), append(r.nodes, 0)
	}
	r.byText[string(r.text)] = i
	return i
}

// drop undoes one add.
func (r *refusals) drop(i int32) {
	if i == 0 {
		return
	}
	if r.nodes[i]--; r.nodes[i] > 0 {
		return
	}
	r.text = appendStatus(r.text[:0], r.list[i])
	delete(r.byText, string(r.text))
	r.list[i], r.free = nil, append(r.free, i)
	if r.last == i {
		r.last = 0
	}
}

// of returns the status with the number.
func (r *refusals) of(i int32) *fwk.Status {
	if i == 0 {
		return nil
	}
	return r.list[i]
}

// count adds the counts to a tally.
func (r *refusals) count(t *tally) {
	for i, status := range r.list {
		if r.nodes[i] > 0 {
			t.add(status, r.nodes[i])
		}
	}
}

// total returns the number of refused nodes.
func (r *refusals) total() (sum int64) {
	for _, n := range r.nodes {
		sum += n
	}
	return sum
}

// reset forgets everything.
func (r *refusals) reset() {
	clear(r.list)
	clear(r.byText)
	*r = refusals{list: r.list[:0], nodes: r.nodes[:0], free: r.free[:0], text: r.text}
}

// appendStatus appends the code, plugin and reasons of a status.
func appendStatus(to []byte, status *fwk.Status) []byte {
	to = binary.AppendVarint(to, int64(status.Code()))
	for _, word := range append([]string{status.Plugin()}, status.Reasons()...) {
		to = append(binary.AppendUvarint(to, uint64(len(word))), word...)
	}
	return to
}
