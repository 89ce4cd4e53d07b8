package ledger

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// shapes is the version of the facts that decide whether an entity fits the nodes at all: the nodes, their labels and
// their allocatable amounts, and the claims of volumes. It is the key of memos, and not part of a result.
type shapes struct {
	version uint64
	offers  map[*kind]offer
}

// offer says how many pods of a kind all nodes would take if they were empty.
type offer struct {
	version uint64
	pods    int64
}

// changed makes the memos void.
func (s *shapes) changed() { s.version++ }

// impossible reports whether an entity cannot be placed on the nodes that exist, even if all were empty and took pods.
// It is so in three cases. No node has the labels and the amounts that one of its pods needs. All nodes together take
// too few of its pods, if these are equal. A claim that a pod names does not exist.
func (l *line) impossible(w *waiter) bool {
	if w.judged != l.b.shapes.version+1 {
		w.judged = l.b.shapes.version + 1
		w.never = l.fitsNowhere(w)
	}
	return w.never
}

func (l *line) fitsNowhere(w *waiter) bool {
	missing := int64(1)
	if w.key.Type == fwk.PodGroupKeyType {
		for _, g := range l.b.gangsOf(w.key) {
			known := g.Gang()
			missing = int64(max(1, known.Min-known.Succeeded-known.Placed()))
		}
	}
	// any order: one is enough
	for k := range w.kinds {
		if takes := l.b.takes(k); takes == 0 || len(w.kinds) == 1 && takes < missing {
			return true
		}
	}
	// any order: one is enough
	for uid := range w.ready {
		if p := l.b.m.Cluster().Pods().Get(uid); p != nil && l.b.lacksClaim(p) {
			return true
		}
	}
	return false
}

// takes returns how many pods of a kind all nodes would take if they were empty.
func (b *book) takes(k *kind) int64 {
	if o, known := b.shapes.offers[k]; known && o.version == b.shapes.version {
		return o.pods
	}
	pods := int64(0)
	for _, n := range b.nodes {
		if n.obj == nil {
			continue
		}
		if k.requires != nil {
			if match, err := k.requires.Match(n.obj); err != nil || !match {
				continue
			}
		}
		pods += b.placesOn(k, n.alloc, n.alloc, n.most)
	}
	b.shapes.offers[k] = offer{b.shapes.version, pods}
	return pods
}

// lacksClaim reports whether a claim that a pod names does not exist.
func (b *book) lacksClaim(p *cluster.Pod) bool {
	for i := range p.Object.Spec.Volumes {
		of := p.Object.Spec.Volumes[i].PersistentVolumeClaim
		if of != nil && b.m.Cluster().Informers().Get(eventlog.PersistentVolumeClaims, p.Object.Namespace,
			of.ClaimName) == nil {
			return true
		}
	}
	return false
}
