package quickaffinity

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
)

// A ledger keeps what affinity needs to know of the nodes and of the pods on them, and which pods came and went. It
// looks only at nodes that have changed. It is a memo and nothing else.
//
// Pods of one kind are the same to every affinity term: they have the same namespace, the same values of the labels
// that any selector asks for, and the same terms. Example: the pods of a StatefulSet differ in the label
// apps.kubernetes.io/pod-index; as long as no selector asks for it they are of one kind.
type ledger struct {
	rows       []row // in the order of the list
	list       []fwk.NodeInfo
	mark       framework.Mark
	version    uint64 // changes with everything else in here
	topologies []*topology
	renewals   int // how often kinds and topologies were made anew

	kinds  []kind
	kindOf map[string]int32
	unused int // kinds of which no pod is there
	labels labelNames
	key    []byte // memory for the next one

	// What has happened to pods. changes[0] is the change of the number first.
	changes []change
	first   uint64

	looked int // how many nodes were looked at, ever: what the ledger is there to keep low
}

// row is a node, as it was when it had that generation, which no other content of any node ever has.
type row struct {
	generation int64
	node       *v1.Node
	pods       []resident
}

type resident struct {
	pod  *v1.Pod
	kind int32
}

// kind is what pods have in common that are the same to every term. info is that of any of them.
type kind struct {
	info fwk.PodInfo
	pods int
}

// change is that a pod of the kind came to the node (+1), or went (-1).
type change struct {
	node *v1.Node
	kind int32
	by   int32
}

// topology is the values of one label of nodes, numbered as they came up, and which of them each node has. A value
// keeps its number when the last node with it is gone.
type topology struct {
	key string
	ids map[string]int32
	at  []int32 // by place of the node; nowhere if it does not have the label

	// users is how many columns of memos count by it. Without any it is not kept up, and at says nothing.
	users int
}

// changedSince is framework.Changes.ChangedSince; nil if nobody can tell.
type changedSince func(framework.Mark) ([]int32, framework.Mark, bool)

const (
	nowhere = -1
	// minChanges is how many changes are kept at the least, and at least twice as many as there are nodes. A memo that
	// was not used while more happened counts all pods again.
	minChanges = 1024
	// maxNames is how many labels are told apart. When selectors ask for more, all labels of a pod count.
	maxNames = 64
	// slack is how many kinds, and values of a label, may be numbered that are not in use. When there are more, and
	// more than are in use, the ledger begins anew.
	slack = 1024
)

// labelNames are the names of the labels that selectors ask for.
type labelNames struct {
	known map[string]bool
	list  []string // sorted; what is left of a pod's labels: nil with all
	all   bool     // they are too many
	grown bool     // since the kinds were made
}

// learn takes note of what the selectors of terms ask for.
func (n *labelNames) learn(terms []fwk.AffinityTerm) {
	for i := range terms {
		requirements, _ := terms[i].Selector.Requirements()
		for j := range requirements {
			n.add(requirements[j].Key())
		}
	}
}

// learnWeighted is learn for preferred terms.
func (n *labelNames) learnWeighted(terms []fwk.WeightedAffinityTerm) {
	for i := range terms {
		requirements, _ := terms[i].Selector.Requirements()
		for j := range requirements {
			n.add(requirements[j].Key())
		}
	}
}

// learnPod takes note of what the pod's terms ask for.
func (n *labelNames) learnPod(info fwk.PodInfo) {
	n.learn(info.GetRequiredAffinityTerms())
	n.learn(info.GetRequiredAntiAffinityTerms())
	n.learnWeighted(info.GetPreferredAffinityTerms())
	n.learnWeighted(info.GetPreferredAntiAffinityTerms())
}

func (n *labelNames) add(name string) {
	if n.all || n.known[name] {
		return
	}
	n.grown = true
	if len(n.list) == maxNames {
		n.all, n.known, n.list = true, nil, nil
		return
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
	n.list = append(n.list, name)
	slices.Sort(n.list)
}

// appendTo appends the labels that count, so that others are never taken for them.
func (n *labelNames) appendTo(b []byte, set map[string]string) []byte {
	names := n.list
	if n.all {
		names = slices.Sorted(maps.Keys(set))
	}
	for _, name := range names {
		if value, ok := set[name]; ok {
			b = appendString(appendString(append(b, 'l'), name), value)
		}
	}
	return b
}

// appendString appends a string so that none can be taken for another with what follows it.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// hasTerms reports whether a pod may have affinity to pods, or against them.
func hasTerms(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// appendPod appends all that terms may ask for of the pod, and its own terms.
func (l *ledger) appendPod(b []byte, pod *v1.Pod) ([]byte, error) {
	b = l.labels.appendTo(appendString(b, pod.Namespace), pod.Labels)
	if !hasTerms(pod) {
		return b, nil
	}
	terms := v1.Affinity{PodAffinity: pod.Spec.Affinity.PodAffinity, PodAntiAffinity: pod.Spec.Affinity.PodAntiAffinity}
	b = append(b, 'a')
	at, size := len(b), terms.Size()
	b = slices.Grow(b, size)[:at+size]
	if _, err := terms.MarshalToSizedBuffer(b[at:]); err != nil {
		return nil, fmt.Errorf("encode affinity: %w", err)
	}
	return b, nil
}

// update brings the ledger up to date with the nodes. It returns false if the kinds had to be made anew: then what was
// known of their numbers holds no longer.
func (l *ledger) update(nodes []fwk.NodeInfo, since changedSince) (bool, error) {
	l.list = nodes
	var places []int32
	known := false
	if since != nil {
		places, l.mark, known = since(l.mark)
	}
	if !known || len(nodes) != len(l.rows) {
		places = places[:0:0]
		for at, node := range nodes {
			if at >= len(l.rows) || l.rows[at].generation != node.GetGeneration() {
				places = append(places, int32(at))
			}
		}
	}
	if len(places) == 0 && len(nodes) == len(l.rows) {
		return true, nil
	}
	if err := l.read(nodes, places); err != nil {
		l.reset()
		return false, err
	}
	if !l.labels.grown && l.unused <= len(l.kinds)-l.unused+slack && !l.outgrown() {
		return true, nil
	}
	return false, l.renew()
}

// reset forgets everything.
func (l *ledger) reset() {
	*l = ledger{looked: l.looked, version: l.version + 1, renewals: l.renewals + 1}
}

// outgrown reports whether most values of a label that have a number must be gone.
func (l *ledger) outgrown() bool {
	return slices.ContainsFunc(l.topologies, func(t *topology) bool { return len(t.ids) > 2*len(l.rows)+slack })
}

// renew makes the kinds and the topologies anew.
func (l *ledger) renew() error {
	list := l.list
	for _, node := range list {
		for _, info := range node.GetPodsWithAffinity() {
			l.labels.learnPod(info)
		}
	}
	l.labels.grown = false
	l.renewals++
	l.kinds, l.kindOf, l.unused, l.topologies = nil, nil, 0, nil
	l.first += uint64(len(l.changes))
	l.changes, l.rows = nil, nil
	places := make([]int32, len(list))
	for at := range places {
		places[at] = int32(at)
	}
	if err := l.read(list, places); err != nil {
		l.reset()
		return err
	}
	return nil
}

// read looks at the nodes at those places, some of which may be named twice, and at those that are gone.
func (l *ledger) read(nodes []fwk.NodeInfo, places []int32) error {
	l.version++
	if len(nodes) == len(l.rows) && !l.moved(nodes, places) {
		for _, at := range places {
			if err := l.readRow(&l.rows[at], int(at), nodes[at]); err != nil {
				return err
			}
		}
		l.trim()
		return nil
	}
	// Nodes have come or gone, and those behind them have other places.
	before := make(map[string]row, len(places))
	for _, at := range places {
		if int(at) < len(l.rows) && l.rows[at].node != nil {
			before[l.rows[at].node.Name], l.rows[at] = l.rows[at], row{}
		}
	}
	for at := len(nodes); at < len(l.rows); at++ {
		before[l.rows[at].node.Name] = l.rows[at]
	}
	for at := len(l.rows); at < len(nodes); at++ {
		l.rows = append(l.rows, row{})
	}
	l.rows = l.rows[:len(nodes)]
	for _, t := range l.topologies {
		t.at = resized(t.at, len(nodes))
	}
	for _, at := range places {
		if l.rows[at].node != nil {
			continue // it is named twice
		}
		name := nodes[at].Node().Name
		r := before[name]
		delete(before, name)
		l.rows[at] = r
		l.place(int(at), r.node)
		if err := l.readRow(&l.rows[at], int(at), nodes[at]); err != nil {
			return err
		}
	}
	// any order: what comes of it is a sum
	for _, r := range before {
		l.recordAll(r.node, r.pods, -1)
	}
	l.trim()
	return nil
}

// moved reports whether another node stands at one of the places than before.
func (l *ledger) moved(nodes []fwk.NodeInfo, places []int32) bool {
	return slices.ContainsFunc(places, func(at int32) bool {
		return l.rows[at].node == nil || l.rows[at].node.Name != nodes[at].Node().Name
	})
}

// readRow looks at one node, which had these contents before.
func (l *ledger) readRow(r *row, at int, info fwk.NodeInfo) error {
	if r.node != nil && r.generation == info.GetGeneration() {
		return nil
	}
	l.looked++
	node, pods := info.Node(), info.GetPods()
	if r.node == nil || r.node != node && !maps.Equal(r.node.Labels, node.Labels) {
		if r.node != nil {
			l.recordAll(r.node, r.pods, -1)
		}
		r.pods = r.pods[:0]
		l.place(at, node)
	}
	r.node = node
	var err error
	if r.pods, err = l.compare(node, r.pods, pods); err == nil {
		r.generation = info.GetGeneration()
	}
	return err
}

// place finds the node's value of each label, where it is known by one.
func (l *ledger) place(at int, node *v1.Node) {
	if node == nil {
		return
	}
	for _, t := range l.topologies {
		t.at[at] = t.of(node)
	}
}

// compare records which pods have come and which have gone, and returns those that are there, in the memory of those
// that were.
func (l *ledger) compare(node *v1.Node, before []resident, now []fwk.PodInfo) ([]resident, error) {
	var gone []resident
	var come []int // places in now
	for i := range max(len(before), len(now)) {
		if i < len(before) && i < len(now) && before[i].pod == now[i].GetPod() {
			continue
		}
		if i < len(before) {
			gone = append(gone, before[i])
		}
		if i < len(now) {
			come = append(come, i)
		}
	}
	out := resized(before, len(now))
	clear(out[len(out):cap(out)])
	for _, i := range come {
		pod := now[i].GetPod()
		if at := slices.IndexFunc(gone, func(r resident) bool { return r.pod == pod }); at >= 0 {
			out[i] = gone[at]
			gone = slices.Delete(gone, at, at+1)
			continue
		}
		k, err := l.kind(now[i])
		if err != nil {
			return out[:0], err
		}
		out[i] = resident{pod, k}
		l.record(node, k, +1)
	}
	l.recordAll(node, gone, -1)
	return out, nil
}

// kind returns the pod's.
func (l *ledger) kind(info fwk.PodInfo) (int32, error) {
	key, err := l.appendPod(l.key[:0], info.GetPod())
	if err != nil {
		return 0, err
	}
	l.key = key
	k, ok := l.kindOf[string(key)]
	if !ok {
		if hasTerms(info.GetPod()) {
			l.labels.learnPod(info)
		}
		if l.kindOf == nil {
			l.kindOf = map[string]int32{}
		}
		k = int32(len(l.kinds))
		l.kindOf[string(key)] = k
		l.kinds = append(l.kinds, kind{info: info})
		l.unused++
	}
	return k, nil
}

func (l *ledger) recordAll(node *v1.Node, pods []resident, by int32) {
	for _, p := range pods {
		l.record(node, p.kind, by)
	}
}

func (l *ledger) record(node *v1.Node, kind, by int32) {
	k := &l.kinds[kind]
	if k.pods == 0 {
		l.unused--
	}
	if k.pods += int(by); k.pods == 0 {
		l.unused++
	}
	l.changes = append(l.changes, change{node, kind, by})
}

// now is the number of the change that comes next.
func (l *ledger) now() uint64 { return l.first + uint64(len(l.changes)) }

// trim forgets the oldest changes if there are too many.
func (l *ledger) trim() {
	if keep := max(minChanges, 2*len(l.rows)); len(l.changes) >= 2*keep {
		l.first += uint64(len(l.changes) - keep)
		l.changes = slices.Clone(l.changes[len(l.changes)-keep:])
	}
}

// find returns the topology of the label, nil if there is none.
func (l *ledger) find(key string) *topology {
	for _, t := range l.topologies {
		if t.key == key {
			return t
		}
	}
	return nil
}

// use returns the topology of the label for one more column of a memo.
func (l *ledger) use(key string) *topology {
	t := l.find(key)
	if t == nil {
		t = &topology{key: key, ids: map[string]int32{}, at: make([]int32, len(l.rows))}
		for at := range l.rows {
			t.at[at] = t.of(l.rows[at].node)
		}
		l.topologies = append(l.topologies, t)
	}
	t.users++
	return t
}

// lend returns the topology of the label for a reading. If no memo counts by it, it is the reading's own.
func (l *ledger) lend(key string) *topology {
	if t := l.find(key); t != nil {
		return t
	}
	return &topology{key: key, ids: map[string]int32{}}
}

// release says that a column is gone that use was called for.
func (l *ledger) release(t *topology) {
	if t.users--; t.users == 0 {
		l.topologies = slices.DeleteFunc(l.topologies, func(other *topology) bool { return other == t })
		t.at = nil
	}
}

// size returns how many bytes the topologies take.
func (l *ledger) size() (n int) {
	for _, t := range l.topologies {
		n += 64 + 4*cap(t.at) + 60*len(t.ids)
	}
	return n
}

// of returns the number of the node's value, nowhere if it does not have the label.
func (t *topology) of(node *v1.Node) int32 {
	value, ok := node.Labels[t.key]
	if !ok {
		return nowhere
	}
	id, ok := t.ids[value]
	if !ok {
		id = int32(len(t.ids))
		t.ids[value] = id
	}
	return id
}

// look is of for a node that is only asked about. The number of a value that has none is behind all others.
func (t *topology) look(node *v1.Node) int32 {
	value, ok := node.Labels[t.key]
	if !ok {
		return nowhere
	}
	if id, ok := t.ids[value]; ok {
		return id
	}
	return int32(len(t.ids))
}

// placeOf returns where the node stands; ok is false if it is not as it was, or not near the place where it was last
// asked for.
func (l *ledger) placeOf(info fwk.NodeInfo, near *int32) (at int, ok bool) {
	const reach = 4
	generation := info.GetGeneration()
	for i := range reach {
		if at := int(*near) + i; at < len(l.rows) && l.rows[at].generation == generation {
			*near = int32(at) + 1
			return at, true
		}
	}
	return 0, false
}

// resized returns the list with another length, in its memory if there is enough of it.
func resized[T any](list []T, length int) []T {
	kept := list[:min(len(list), length)]
	return slices.Grow(kept, length-len(kept))[:length]
}
