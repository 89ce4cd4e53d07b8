package framework

import (
	"encoding/binary"

	fwk "k8s.io/kube-scheduler/framework"
)

// refusals are the different statuses with which the nodes of a memo are refused. Nodes that are refused with the same
// words share one status, and a memo has a number for it by node: 0 stands for a feasible node.
type refusals struct {
	list   []*fwk.Status    // list[0] is nil
	nodes  []int64          // by number: how many nodes there are of it; if 0, the number is free
	byText map[string]int32 // by what appendStatus says
	free   []int32
	last   int32  // the number given last: neighbouring nodes are mostly refused with the same words
	text   []byte // the memory of appendStatus
}

// add counts a node that is refused with the status, and returns the status's number, 0 for nil.
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

// drop takes back what add has counted.
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

// of returns the status of a number.
func (r *refusals) of(i int32) *fwk.Status {
	if i == 0 {
		return nil
	}
	return r.list[i]
}

// count adds what is counted to a tally.
func (r *refusals) count(t *tally) {
	for i, status := range r.list {
		if r.nodes[i] > 0 {
			t.add(status, r.nodes[i])
		}
	}
}

// total returns how many nodes are counted.
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

// appendStatus appends all that a status that refuses a node says.
func appendStatus(to []byte, status *fwk.Status) []byte {
	to = binary.AppendVarint(to, int64(status.Code()))
	for _, word := range append([]string{status.Plugin()}, status.Reasons()...) {
		to = append(binary.AppendUvarint(to, uint64(len(word))), word...)
	}
	return to
}
