package explain

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// maxDomainRows is the number of domains that are listed for a resource.
const maxDomainRows = 10

// domainLevel has labels of nodes of each of which the nodes of all members of gangs must have one value.
type domainLevel struct {
	labels []string
	gangs  []*cluster.Group
}

// requiredLevels returns the topologies that a gang's members must keep to, the outermost first: the ones of the
// CompositePodGroups above it, and its own. g may be nil.
func requiredLevels(g *cluster.Group) (levels []domainLevel) {
	if g == nil {
		return nil
	}
	for _, c := range g.Above() {
		if labels := c.Topology(); len(labels) > 0 {
			levels = append(levels, domainLevel{labels, c.Gangs()})
		}
	}
	if labels, _ := g.Topology(); len(labels) > 0 {
		levels = append(levels, domainLevel{labels, []*cluster.Group{g}})
	}
	return levels
}

// labelsOf returns the labels of all levels, each once.
func labelsOf(levels []domainLevel) (labels []string) {
	for _, level := range levels {
		for _, label := range level.labels {
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
		}
	}
	return labels
}

// domainOf names the domain of a node, as decisions do; ok is false if it lacks a label.
func domainOf(node *v1.Node, levels []domainLevel) (key string, ok bool) {
	all := make([]string, len(levels))
	for i, level := range levels {
		values := make([]string, len(level.labels))
		for k, label := range level.labels {
			if values[k], ok = node.Labels[label]; !ok {
				return "", false
			}
		}
		all[i] = strings.Join(level.labels, ",") + "=" + strings.Join(values, ", ")
	}
	return strings.Join(all, "; "), true
}

// domainTable has the domains that a gang may choose from, and the chosen one.
type domainTable struct {
	levels []domainLevel
	by     string   // the labels in words
	of     []string // by node: the domain, "" for none
	keys   []string // all domains, sorted
	chosen string   // "" if there is none
}

// findDomains finds the domains of the nodes, and which one is chosen: the one that the cycle was limited to, or where
// members are, or with room for the most members. It returns nil if no domain is required.
func (t *roomTable) findDomains() *domainTable {
	if t.a.group == nil {
		return nil
	}
	d := &domainTable{levels: requiredLevels(t.a.group), of: make([]string, len(t.nodes))}
	d.by = strings.Join(labelsOf(d.levels), ", ")
	at := map[string]int{}
	for i, n := range t.nodes {
		at[n.Node().Name] = i
		if key, ok := domainOf(n.Node(), d.levels); ok {
			d.of[i] = key
			d.keys = append(d.keys, key)
		}
	}
	slices.Sort(d.keys)
	d.keys = slices.Compact(d.keys)
	if d.chosen = t.limitedTo(d, at); d.chosen == "" {
		d.chosen = t.roomiest(d, t.openTo(d, at))
	}
	return d
}

// limitedTo returns the domain that the cycle was limited to, "" for none.
func (t *roomTable) limitedTo(d *domainTable, at map[string]int) string {
	for _, step := range t.a.refused.left {
		if step.Plugin != gangPlugin || len(step.Nodes) == 0 {
			continue
		}
		if i, known := at[step.Nodes[0]]; known {
			return d.of[i]
		}
	}
	return ""
}

// openTo returns the domains that members which have nodes leave to the others: the ones with the most of them, level
// by level. Without such members these are all.
func (t *roomTable) openTo(d *domainTable, at map[string]int) []string {
	open := d.keys
	for i := range d.levels {
		counts, most := map[string]int{}, 0
		for _, g := range d.levels[i].gangs {
			for _, p := range g.Members() {
				n, known := at[p.Node]
				if p.Stage == cluster.Pending || p.Leaving() || !known {
					continue
				}
				if outer, ok := domainOf(t.nodes[n].Node(), d.levels[:i+1]); ok {
					counts[outer]++
					most = max(most, counts[outer])
				}
			}
		}
		if most == 0 {
			continue
		}
		of := func(key string) int { // of a key's outer domain of this level
			for outer, n := range counts { // any order: at most one of them is the outer domain
				if key == outer || strings.HasPrefix(key, outer+"; ") {
					return n
				}
			}
			return 0
		}
		open = slices.DeleteFunc(slices.Clone(open), func(key string) bool { return of(key) < most })
	}
	return open
}

// roomiest returns the domain with room for the most members, of these the first; "" for none.
func (t *roomTable) roomiest(d *domainTable, open []string) (best string) {
	most := int64(-1)
	fits := t.fitsBy(d)
	for _, key := range open {
		if n := min(fits[key], int64(t.a.missing)); n > most {
			best, most = key, n
		}
	}
	return best
}

// fitsBy returns, by domain, how many members of the most frequent kind find room.
func (t *roomTable) fitsBy(d *domainTable) map[string]int64 {
	fits := map[string]int64{}
	if len(t.a.kinds) == 0 {
		return fits
	}
	k := slices.MaxFunc(t.a.kinds, func(a, b *asker) int { return cmp.Compare(a.pods, b.pods) })
	for i, n := range t.nodes {
		if d.of[i] != "" && t.a.on(k, n.Node()) == (nodeCause{}) {
			fits[d.of[i]] += t.places(k, i)
		}
	}
	return fits
}

// byDomain splits a resource by domains. use returns the usable amount of a node if its domain is chosen.
func (t *roomTable) byDomain(name v1.ResourceName, use func(i int) int64) *answer.RoomByDomain {
	d := t.domains
	if d == nil {
		return nil
	}
	x := &answer.RoomByDomain{Labels: labelsOf(d.levels), Domains: []answer.DomainRoom{}}
	rows := make([]answer.DomainRoom, len(d.keys))
	for i, key := range d.keys {
		rows[i] = answer.DomainRoom{Domain: key, Chosen: key == d.chosen}
	}
	for i, n := range t.nodes {
		at, ok := slices.BinarySearch(d.keys, d.of[i])
		if d.of[i] == "" || !ok {
			x.Outside++
			x.OutsideFree += t.left(name)[i]
			continue
		}
		allocatable, _ := cluster.AmountOn(n, name)
		rows[at].Nodes++
		rows[at].Allocatable += allocatable
		rows[at].Free += t.left(name)[i]
		rows[at].Usable += use(i)
	}
	if len(t.a.kinds) == 1 {
		fits := t.fitsBy(d)
		for i := range rows {
			n := int(min(fits[rows[i].Domain], int64(t.a.missing)))
			rows[i].Fits = &n
		}
	}
	slices.SortStableFunc(rows, func(a, b answer.DomainRoom) int {
		return cmp.Or(cmp.Compare(b.Usable, a.Usable), cmp.Compare(b.Free, a.Free))
	})
	for i, row := range rows {
		if i < maxDomainRows {
			x.Domains = append(x.Domains, row)
			continue
		}
		x.Others++
		x.OthersFree += row.Free
		x.OthersUsable += row.Usable
	}
	return x
}
