package ledger

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// shapes has the versions of the facts that decide whether an entity fits the nodes at all. They are the keys of memos,
// and not part of a result.
type shapes struct {
	versions
	offers map[*kind]offer
}

// versions are of the nodes, with their labels and allocatable amounts, and of the claims of volumes. The first is 1.
type versions struct{ nodes, claims uint64 }

// offer says how many pods of a kind all nodes would take if they were empty.
type offer struct {
	version uint64
	pods    int64
}

// changed makes the memos void.
func (s *shapes) changed() { s.nodes++ }

// impossible reports whether an entity cannot be placed on the nodes that exist, even if all were empty and took pods.
// A pod does not count if no node has the labels and the amounts that it needs, or if a claim that it names does not
// exist. An entity is impossible if too few of its pods are left, or, if these are equal, all nodes together take too
// few.
func (l *line) impossible(w *waiter) bool {
	now := l.b.shapes.versions
	if w.judged.nodes != now.nodes || w.claims && w.judged.claims != now.claims {
		w.judged = now
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
	w.claims = false
	possible := int64(0)
	// any order: they are counted
	for uid, k := range w.ready {
		lacks := false
		if p := l.b.m.Cluster().Pods().Get(uid); p != nil {
			var names bool
			names, lacks = l.b.lacksClaim(p)
			w.claims = w.claims || names
		}
		if takes := l.b.takes(k); takes > 0 && !lacks && (len(w.kinds) > 1 || takes >= missing) {
			possible++
		}
	}
	return possible < missing
}

// takes returns how many pods of a kind all nodes would take if they were empty.
func (b *book) takes(k *kind) int64 {
	if o, known := b.shapes.offers[k]; known && o.version == b.shapes.nodes {
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
	b.shapes.offers[k] = offer{b.shapes.nodes, pods}
	return pods
}

// lacksClaim reports whether a pod names a claim, and whether one that it names does not exist.
func (b *book) lacksClaim(p *cluster.Pod) (names, lacks bool) {
	for i := range p.Object.Spec.Volumes {
		of := p.Object.Spec.Volumes[i].PersistentVolumeClaim
		if of == nil {
			continue
		}
		names = true
		lacks = lacks || b.m.Cluster().Informers().Get(eventlog.PersistentVolumeClaims, p.Object.Namespace,
			of.ClaimName) == nil
	}
	return names, lacks
}
