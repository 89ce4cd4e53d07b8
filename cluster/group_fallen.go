package cluster

import (
	"encoding/binary"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// The memory of a gang beyond its pods and objects: whether it had its minimum and does not have it now, and in which
// domains it could not be placed.

// Avoid notes that an attempt in a domain has failed, so that the next one looks elsewhere.
func (g *Group) Avoid(domain string) {
	if i, known := slices.BinarySearch(g.avoided, domain); !known {
		g.avoided = slices.Insert(g.avoided, i, domain)
	}
}

// Avoids reports whether Avoid was called for the domain.
func (g *Group) Avoids(domain string) bool {
	_, known := slices.BinarySearch(g.avoided, domain)
	return known
}

// AvoidNothing takes back all calls of Avoid.
func (g *Group) AvoidNothing() { g.avoided = nil }

// startHistory forgets the members that the gang has lost, and the members that ended well. If met is true, the gang
// has its minimum: from now on it needs the members that are bound or being bound now, and no others. Otherwise it
// needs none.
//
// Members that ended well are forgotten only when the gang is over. Example: of 4 members of a gang with minimum 3 two
// end well and one is lost. With the last one the gang has its minimum.
func (g *Group) startHistory(met bool) {
	g.counts.Succeeded, g.counts.Lost = 0, 0
	g.judged = g.judged && g.parts == nil
	if g.counts.Met == met && g.away == 0 {
		return // each member that came to its node since is needed already
	}
	g.counts.Met = met
	// any order: each is set
	for _, p := range g.members {
		g.tallyNeeded(p, -1)
		p.needed = met && p.hasNode()
		g.tallyNeeded(p, +1)
	}
}

// tallyNeeded adds or removes p in the count of needed members without a node.
func (g *Group) tallyNeeded(p *Pod, sign int) {
	if !p.needed || p.hasNode() {
		return
	}
	g.away += sign
	if p.leaving || p.Object.DeletionTimestamp != nil || p.evicted {
		g.counts.Missing += sign
	}
}

// hasNode reports whether the pod is bound or being bound, and is not leaving its node.
func (p *Pod) hasNode() bool { return p.Stage >= Binding && !p.leaving }

// miss notes that a member goes that the gang needs, and that did not end well.
func (g *Group) miss(p *Pod) {
	if p.needed && !p.succeeded {
		g.counts.Lost++
	}
}

// Evicts reports whether the gang wants the rest of it evicted when it has fallen below its minimum.
func (g *Group) Evicts() bool { return g.Declared() && g.asked().evict }

// Succeeded takes note that a pod is about to go because it has ended well: its gang does not miss it. One that was
// being deleted, or was asked to go, has not ended well, whatever its last word was.
func (s *State) Succeeded(uid types.UID) {
	p := s.pods.byUID[uid]
	if p != nil && p.Group != nil && p.needed && p.Object.DeletionTimestamp == nil && !p.evicted {
		p.succeeded = true
		p.Group.counts.Succeeded++
	}
}

// Met reports whether the gang had its minimum, and that it is not all gone since.
func (g *Group) Met() bool { return g.counts.Met }

// Succeeded returns how many members have ended well since the gang first had its minimum.
func (g *Group) Succeeded() int { return g.counts.Succeeded }

// observe notes whether g has its minimum, and whether it has fallen below it.
func (gs *Gangs) observe(g *Group) {
	if gs.restoring {
		return // of its members some are not there yet
	}
	gs.noteRecounted(g)
	known := g.known()
	switch {
	case known.Over() && g.onlyAsked == 0:
		g.startHistory(false)
	case known.Complete():
		ended := g.counts.Succeeded
		g.startHistory(true)
		g.counts.Succeeded = ended
	}
	gs.judgeFallen(g)
}

// judgeFallen notes whether g is to be evicted: it has fallen below its minimum, and asks for that.
func (gs *Gangs) judgeFallen(g *Group) {
	if known := g.known(); known.Fallen() && g.Evicts() {
		gs.fallen[g] = true
		return
	}
	delete(gs.fallen, g)
}

// appendState appends the memory of gangs beyond their pods and objects.
func (gs *Gangs) appendState(dst []byte) []byte {
	var met []*Group
	// any order: sorted right below
	for _, g := range gs.byName {
		if g.counts.Met || len(g.avoided) > 0 {
			met = append(met, g)
		}
	}
	slices.SortFunc(met, compareGroups)
	dst = binary.AppendUvarint(dst, uint64(len(met)))
	for _, g := range met {
		dst = canonical.AppendString(dst, g.Namespace)
		dst = canonical.AppendString(dst, g.Name)
		dst = binary.AppendUvarint(dst, uint64(g.counts.Succeeded))
		dst = binary.AppendUvarint(dst, uint64(g.counts.Lost))
		dst = append(dst, canonical.Flags(g.counts.Met))
		dst = binary.AppendUvarint(dst, uint64(len(g.avoided)))
		for _, domain := range g.avoided {
			dst = canonical.AppendString(dst, domain)
		}
	}
	return gs.ended.appendState(dst)
}

// restore reads what appendState wrote; pods, nodes and objects are there already.
func (gs *Gangs) restore(r *canonical.Reader) error {
	for range r.Count("gangs", 6) {
		name := types.NamespacedName{Namespace: r.String("namespace"), Name: r.String("name")}
		succeeded, lost, met := r.Int("succeeded"), r.Int("lost"), r.Flags("gang's flags", 1)[0]
		avoided := make([]string, r.Count("avoided domains", 1))
		for i := range avoided {
			avoided[i] = r.String("avoided domain")
		}
		if r.Err() != nil {
			return r.Err()
		}
		g := gs.byName[name]
		if g == nil {
			r.Fail("gang", errors.New(name.String()+" is not there"))
			return r.Err()
		}
		g.counts.Met, g.counts.Succeeded, g.counts.Lost = met, succeeded, lost
		g.judged = false
		for _, domain := range avoided {
			g.Avoid(domain)
		}
		gs.judgeFallen(g)
	}
	return gs.ended.restore(r)
}
