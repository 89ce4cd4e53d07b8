// Package topologycount keeps, from pod to pod, how many pods there are in each domain of a topology that count for a
// pod's terms: its affinity terms, or its spread constraints. It looks only at nodes that have changed.
//
// A Ledger owns the nodes and pods as they were last seen, and the Counts of each Question. All of it is a memo: it is
// no part of any state, and without it the answers are the same. The plugins give the counts their meaning.
//
// Everything becomes invalid in one way: a Ledger compares the generation of each node that may have changed, and
// journals which pods came and went. Counts follow the journal when they are used. When kinds of pods have to be
// numbered again, all Counts are dropped. One bound of memory holds for all of them.
//
// Start at Ledger.Update; kinds.go says which pods are the same to every term, counts.go how Counts are kept up,
// memory.go which are dropped, reading.go what one pod's cycle sees of them.
package topologycount

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
)

// Ledger keeps the counts for the plugins of one profile.
type Ledger struct {
	table
	memos memos
	mark  framework.Mark
	// changedSince is framework.Changes.ChangedSince; nil: all nodes are compared.
	changedSince func(framework.Mark) ([]int32, framework.Mark, bool)
}

// ForProfile returns the ledger that the plugins of the handle's profile share. Each plugin gets one of its own if the
// handle is no framework.Sharer.
func ForProfile(h fwk.Handle) *Ledger {
	if s, ok := h.(framework.Sharer); ok {
		return s.Share("topologycount", func() any { return newLedger(h) }).(*Ledger)
	}
	return newLedger(h)
}

func newLedger(h fwk.Handle) *Ledger {
	l := &Ledger{memos: memos{most: maxMemory}}
	l.kinds.clear()
	if c, ok := h.(framework.Changes); ok {
		l.changedSince = c.ChangedSince
	}
	return l
}

// Update looks at the nodes that have changed. It may drop all Counts.
func (l *Ledger) Update(nodes []fwk.NodeInfo) error {
	l.list = nodes
	places := l.changed(nodes)
	if len(places) == 0 && len(nodes) == len(l.rows) {
		return nil
	}
	if err := l.read(places); err != nil {
		l.forgetAll()
		return err
	}
	if !l.kinds.outgrown() && !l.topologies.outgrown(len(l.rows)) {
		return nil
	}
	return l.renew()
}

// changed returns the places of the nodes that are not as they were, or more.
func (l *Ledger) changed(nodes []fwk.NodeInfo) (places []int32) {
	known := false
	if l.changedSince != nil {
		places, l.mark, known = l.changedSince(l.mark)
	}
	if known && len(nodes) == len(l.rows) {
		return places
	}
	places = nil
	for at, node := range nodes {
		if at >= len(l.rows) || l.rows[at].generation != node.GetGeneration() {
			places = append(places, int32(at))
		}
	}
	return places
}

// Learn tells the ledger which labels a new Question's selectors name: pods that differ in one of them are of different
// kinds from now on. It may drop all Counts, and change the bytes of AppendPod.
func (l *Ledger) Learn(selectors ...labels.Selector) error {
	for _, s := range selectors {
		l.kinds.labels.addSelector(s)
	}
	return l.renewIfGrown()
}

// LearnTerms is Learn for a pod's affinity terms.
func (l *Ledger) LearnTerms(info fwk.PodInfo) error {
	l.kinds.labels.addTerms(info)
	return l.renewIfGrown()
}

func (l *Ledger) renewIfGrown() error {
	if !l.kinds.labels.grown {
		return nil
	}
	return l.renew()
}

// forgetAll forgets everything but the names of labels.
func (l *Ledger) forgetAll() {
	for c := l.memos.oldest(); c != nil; c = l.memos.oldest() {
		l.drop(c)
	}
	l.kinds.clear()
	l.journal.forgetAll()
	l.rows = nil
	l.version++
}

// renew numbers the kinds and the domains again, and drops all Counts.
func (l *Ledger) renew() error {
	for _, node := range l.list {
		for _, info := range node.GetPodsWithAffinity() {
			l.kinds.labels.addTerms(info)
		}
	}
	l.kinds.labels.grown = false
	l.forgetAll()
	places := make([]int32, len(l.list))
	for at := range places {
		places[at] = int32(at)
	}
	err := l.read(places)
	if err != nil {
		l.forgetAll()
	}
	l.journal.forgetAll() // there are no Counts to follow it
	return err
}

// AppendPod appends everything about the pod that the terms of pods on nodes may ask for, and its own affinity terms:
// pods with the same are the same to those. It is valid until Learn or Update.
func (l *Ledger) AppendPod(b []byte, pod *v1.Pod) ([]byte, error) { return l.kinds.appendPod(b, pod) }

// Find returns the Counts that were kept under the key, nil if there are none.
func (l *Ledger) Find(key []byte) *Counts { return l.memos.byKey[string(key)] }

// Keep returns new Counts for the Question. Nothing is counted before Use.
func (l *Ledger) Keep(key []byte, q Question) *Counts {
	c := &Counts{Question: q, table: &l.table, key: string(key)}
	l.memos.keep(c)
	return c
}

// Use brings the Counts up to date with the last Update. It may drop others.
func (l *Ledger) Use(c *Counts) {
	c.update()
	l.memos.use(c)
	for len(l.memos.byKey) > leastMemos &&
		(len(l.topologies) > maxTopologies || l.memos.bytes+l.topologies.bytes() > l.memos.most) {
		l.drop(l.memos.oldest())
	}
}

// Forget drops the Counts of such Questions.
func (l *Ledger) Forget(such func(Question) bool) {
	// any order: each is judged by itself
	for _, c := range l.memos.byKey {
		if such(c.Question) {
			l.drop(c)
		}
	}
}

// drop forgets Counts, and the topologies that no others count by.
func (l *Ledger) drop(c *Counts) {
	l.memos.drop(c)
	for i := range c.columns {
		l.topologies.release(c.columns[i].Topology)
	}
}

// Place returns the place of the node as it is now; ok is false if the ledger has not seen it so. It looks at from
// first, then behind it.
func (l *Ledger) Place(info fwk.NodeInfo, from int) (at int, ok bool) {
	if from < len(l.list) && l.list[from] == info { // mostly so
		return from, true
	}
	same := func(r row) bool { return r.generation == info.GetGeneration() }
	from = min(from, len(l.rows))
	if at := slices.IndexFunc(l.rows[from:], same); at >= 0 {
		return from + at, true
	}
	at = slices.IndexFunc(l.rows[:from], same)
	return at, at >= 0
}
