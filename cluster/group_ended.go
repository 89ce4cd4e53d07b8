package cluster

import (
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// maxEndedGangs is the number of gangs without a PodGroup and without a member that are remembered. The ones that were
// left first are forgotten first.
const maxEndedGangs = 1024

// endedGang is a gang without a PodGroup whose last member went while fewer members than its minimum had ended well.
// The pod that the same controller makes next continues it.
type endedGang struct {
	name       types.NamespacedName
	controller types.UID
	succeeded  int
}

// endedGangs are such gangs, the one that was left first before the others.
type endedGangs []endedGang

// take forgets the gang of a name, and returns it; the zero value for an unknown one.
func (e *endedGangs) take(name types.NamespacedName) endedGang {
	i := slices.IndexFunc(*e, func(g endedGang) bool { return g.name == name })
	if i < 0 {
		return endedGang{}
	}
	found := (*e)[i]
	*e = slices.Delete(*e, i, i+1)
	return found
}

// isControlled reports whether a controller made each of the members of a gang.
func isControlled(g *Group) bool {
	return len(g.controllers.count) > 0 && g.controllers.count[""] == 0
}

// note remembers the gang of its last member, which goes.
func (e *endedGangs) note(p *Pod) {
	g, known := p.Group, p.Group.known()
	if len(g.members) > 1 || len(g.declarations) > 0 || p.facts.controller == "" || !known.Met ||
		known.Succeeded == 0 || known.Succeeded >= known.Min {
		return
	}
	*e = append(*e, endedGang{g.Key(), p.facts.controller, known.Succeeded})
	if len(*e) > maxEndedGangs {
		*e = slices.Delete(*e, 0, 1)
	}
}

// join gives a group without a PodGroup the members that ended well, if p is of the same controller. A pod of
// another controller that comes when no member has a node begins another gang.
func (e *endedGangs) join(p *Pod) {
	g := p.Group
	if len(g.declarations) > 0 {
		return
	}
	if len(g.members) == 0 {
		if before := e.take(g.Key()); before.controller != "" && before.controller == p.facts.controller {
			g.counts.Met, g.counts.Succeeded = true, before.succeeded
		}
		return
	}
	if known := g.known(); known.Succeeded > 0 && known.Placed() == 0 && g.controllers.count[p.facts.controller] == 0 {
		g.startHistory(false)
	}
}

func (e *endedGangs) appendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(*e)))
	for _, g := range *e {
		dst = canonical.AppendString(dst, g.name.Namespace)
		dst = canonical.AppendString(dst, g.name.Name)
		dst = canonical.AppendString(dst, string(g.controller))
		dst = binary.AppendUvarint(dst, uint64(g.succeeded))
	}
	return dst
}

// restore reads what appendState wrote.
func (e *endedGangs) restore(r *canonical.Reader) error {
	for range r.Count("ended gangs", 4) {
		*e = append(*e, endedGang{
			name:       types.NamespacedName{Namespace: r.String("namespace"), Name: r.String("name")},
			controller: types.UID(r.String("controller")),
			succeeded:  r.Int("succeeded"),
		})
	}
	return r.Err()
}
