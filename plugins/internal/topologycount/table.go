package topologycount

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// table has the nodes and their pods as they were last seen, and journals which pods came and went.
type table struct {
	rows    []row // in the order of the list
	list    []fwk.NodeInfo
	version uint64 // changes with every row

	kinds      kinds
	topologies topologies
	journal    journal

	// The work that the table saves. They count how often, ever, a node was read, a kind of pods was compared with a
	// Question, and all pods of all nodes were counted.
	looked, compared, counted int
}

// row is a node as it was at that generation. No other content of any node ever has the same one.
type row struct {
	generation int64
	node       *v1.Node
	pods       []resident
}

type resident struct {
	pod  *v1.Pod
	kind int32
}

// read reads the nodes at the places, some of which may be named twice, and notes which are gone. When nodes have come
// or gone, the nodes behind them have other places.
func (t *table) read(places []int32) error {
	t.version++
	before := t.takeOut(places)
	for _, at := range places {
		if t.rows[at].node != nil {
			continue // it is named twice
		}
		name := t.list[at].Node().Name
		if r, ok := before[name]; ok {
			delete(before, name)
			t.rows[at] = r
			t.topologies.place(int(at), r.node)
		}
		if err := t.readRow(int(at)); err != nil {
			return err
		}
	}
	// any order: the result is a sum
	for _, r := range before {
		t.record(&r, -1)
	}
	t.journal.trim(len(t.rows))
	return nil
}

// takeOut empties the rows at those places, makes as many as there are nodes, and returns by name what they had.
func (t *table) takeOut(places []int32) map[string]row {
	before := make(map[string]row, len(places))
	take := func(r *row) {
		if r.node != nil {
			before[r.node.Name], *r = *r, row{}
		}
	}
	for _, at := range places {
		if int(at) < len(t.rows) {
			take(&t.rows[at])
		}
	}
	for at := len(t.list); at < len(t.rows); at++ {
		take(&t.rows[at])
	}
	if kept := len(t.rows); kept != len(t.list) {
		t.rows = resized(t.rows, len(t.list))
		clear(t.rows[min(kept, len(t.rows)):])
		t.topologies.resize(len(t.list))
	}
	return before
}

// readRow looks at the node at that place, of which the row may have an earlier state.
func (t *table) readRow(at int) error {
	r, info := &t.rows[at], t.list[at]
	if r.node != nil && r.generation == info.GetGeneration() {
		return nil
	}
	t.looked++
	node := info.Node()
	if r.node == nil || r.node != node && !countsAlike(r.node, node) {
		if r.node != nil {
			t.record(r, -1)
		}
		r.node, r.pods = node, r.pods[:0]
		t.record(r, +1)
		t.topologies.place(at, node)
	}
	r.node = node
	if err := t.readPods(r, info.GetPods()); err != nil {
		return err
	}
	r.generation = info.GetGeneration()
	return nil
}

// countsAlike reports whether a Question admits both states of a node, and puts them in the same domains, or neither.
func countsAlike(a, b *v1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(s, t v1.Taint) bool {
		return s.Key == t.Key && s.Value == t.Value && s.Effect == t.Effect
	})
}

// readPods records which pods have come to the row's node and which have gone.
func (t *table) readPods(r *row, now []fwk.PodInfo) error {
	var gone []resident
	var come []int // places in now
	for i := range max(len(r.pods), len(now)) {
		if i < len(r.pods) && i < len(now) && r.pods[i].pod == now[i].GetPod() {
			continue
		}
		if i < len(r.pods) {
			gone = append(gone, r.pods[i])
		}
		if i < len(now) {
			come = append(come, i)
		}
	}
	r.pods = resized(r.pods, len(now))
	clear(r.pods[len(r.pods):cap(r.pods)])
	for _, i := range come {
		pod := now[i].GetPod()
		if at := slices.IndexFunc(gone, func(r resident) bool { return r.pod == pod }); at >= 0 {
			r.pods[i] = gone[at]
			gone = slices.Delete(gone, at, at+1)
			continue
		}
		k, err := t.kinds.number(now[i])
		if err != nil {
			return err
		}
		r.pods[i] = resident{pod, k}
		t.recordKind(r.node, k, +1)
	}
	for _, p := range gone {
		t.recordKind(r.node, p.kind, -1)
	}
	return nil
}

// record journals that the row's node and its pods have come (+1) or gone (-1).
func (t *table) record(r *row, by int32) {
	t.recordKind(r.node, nodeKind, by)
	for _, p := range r.pods {
		t.recordKind(r.node, p.kind, by)
	}
}

func (t *table) recordKind(node *v1.Node, kind, by int32) {
	t.kinds.count(kind, by)
	t.journal.changes = append(t.journal.changes, change{node, kind, by})
}

// use returns the topology of the key for one more column.
func (t *table) use(key Key) *Topology {
	by := t.topologies.find(key)
	if by == nil {
		by = newTopology(key)
		by.at = make([]int32, len(t.rows))
		for at := range t.rows {
			by.at[at] = by.Number(t.rows[at].node)
		}
		t.topologies = append(t.topologies, by)
	}
	by.users++
	return by
}
