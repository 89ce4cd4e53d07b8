package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// The search for the domain of a gang's members: gangs and the composites above them may each have
// to stay within a domain, and of the domains that have room the one with the highest score is taken.

// placement tries where the pods of a gang, and of the gangs that are admitted with it, find room. It is made for one
// search.
//
// The domains of a composite or a gang are compared by placements: in each domain, all gangs below are placed one after
// the other, as far as each may be admitted. The gangs and composites below have domains of their own within it.
// Example: a composite must stay within a zone, and each of its two gangs within a rack. In each zone the first gang is
// placed in its best rack, and then the second one in the best of the remaining racks. A zone without room for one of
// them is excluded.
type placement struct {
	*domainSearch
	nodes    []fwk.NodeInfo
	at       map[string]int // index in nodes by name
	all      []int
	pods     map[*cluster.Group][]int // the pods to be placed, by their indexes in packing
	packing  *room.Packing
	avoiding bool // domains in which an attempt has failed are out
	heldNone bool // members that have nodes leave the others no domain
}

// find returns the domain of a gang's members, nil for any nodes. why is the reason if there is none. A required
// topology holds for all members. Within it, a preferred one holds if the domain has room for all that the gang still
// needs: the first label for which there is such a domain. Domains in which an attempt has failed come last, or with
// strict not at all.
func (s *domainSearch) find() (d *domain, why string) {
	s.guard.check("a domain")
	p := s.newPlacement()
	p.avoiding = true
	if d, why = p.descend(); why != "" && !s.strict {
		p.avoiding = false
		d, why = p.descend()
	}
	return d, why
}

// MembersLeaveNoDomain reports whether members that have nodes leave no domain for other members of the gang. They are
// its own members, or members of gangs that must share a domain with it, and they are in several domains or in none.
// Only a change of these members helps. kube-scheduler reports an error then.
func (m *Machine) MembersLeaveNoDomain(g *cluster.Group) bool {
	if !g.HasTopology() ||
		!slices.ContainsFunc(g.Unit(), func(each *cluster.Group) bool { return each.Placed()+each.Waiting() > 0 }) {
		return false
	}
	m.keepGates()
	s := &domainSearch{topology: m.topology, g: g}
	p := s.newPlacement()
	_, why := p.descend()
	return why != "" && p.heldNone
}

func (s *domainSearch) newPlacement() *placement {
	p := &placement{domainSearch: s, at: map[string]int{}, pods: map[*cluster.Group][]int{}}
	p.nodes, _ = s.cluster.Nodes().List()
	for i, info := range p.nodes {
		p.at[info.Node().Name] = i
		p.all = append(p.all, i)
	}
	return p
}

// begin finds the pods to be placed and the free room, once they matter. If members have nodes, they do not.
func (p *placement) begin() {
	if p.packing != nil {
		return
	}
	gangs := []*cluster.Group{p.g}
	if p.g.HasTopologyAbove() {
		gangs = p.g.Unit()
	}
	var pods []*cluster.Pod
	for _, g := range gangs {
		for _, each := range g.Members() {
			if p.toTry(each) {
				p.pods[g] = append(p.pods[g], len(pods))
				pods = append(pods, each)
			}
		}
	}
	p.packing = p.table.Packing(pods)
	for _, each := range p.released {
		p.packing.Free(each)
	}
	// any order: a sum
	for each, node := range p.rehearsed {
		p.packing.Hold(each, node)
	}
}

// descend returns the domain of the gang. It starts at the topmost composite above the gang and goes down, each domain
// within the one above it.
func (p *placement) descend() (d *domain, why string) {
	within := &domain{indexes: p.all}
	for _, c := range p.g.Above() {
		if within, why = p.domainFor(level{composite: c}, within); why != "" {
			return nil, why
		}
	}
	if within, why = p.domainFor(level{gang: p.g}, within); why != "" {
		return nil, why
	}
	if within = p.preferred(p.g, within); len(within.labels) == 0 {
		return nil, ""
	}
	within.nodes = make(map[string]bool, len(within.indexes))
	for _, i := range within.indexes {
		name := p.nodes[i].Node().Name
		within.nodes[name] = true
		within.names = append(within.names, name)
	}
	return within, ""
}

// level is a composite or a gang.
type level struct {
	composite *cluster.Composite
	gang      *cluster.Group
}

func (l level) String() string {
	if l.composite != nil {
		return "composite pod group " + l.composite.String()
	}
	return "pod group " + l.gang.String()
}

// required returns the labels of nodes of each of which all nodes must have one value.
func (l level) required() []string {
	if l.composite != nil {
		return l.composite.Topology()
	}
	labels, _ := l.gang.Topology()
	return labels
}

func (l level) gangs() []*cluster.Group {
	if l.composite != nil {
		return l.composite.Gangs()
	}
	return []*cluster.Group{l.gang}
}

// split returns the domains by the labels within another one, by value. outer is the key of the domain that they are
// within.
func (p *placement) split(labels []string, within *domain, outer string) []*domain {
	byValue := map[string]*domain{}
	for _, i := range within.indexes {
		value, ok := valueOf(p.nodes[i].Node(), labels)
		if !ok {
			continue
		}
		d := byValue[value]
		if d == nil {
			d = &domain{labels: labels, value: value, outer: outer}
			byValue[value] = d
		}
		d.indexes = append(d.indexes, i)
	}
	domains := make([]*domain, 0, len(byValue))
	// any order: sorted right below
	for _, d := range byValue {
		domains = append(domains, d)
	}
	slices.SortFunc(domains, func(a, b *domain) int { return strings.Compare(a.value, b.value) })
	return domains
}

// domainFor returns the domain of a level within another one. It is the outer domain if the level asks for none.
// Otherwise it is the domain in which members below the level have nodes, or else the one with the highest score. why
// is the reason if there is none.
func (p *placement) domainFor(l level, within *domain) (d *domain, why string) {
	labels := l.required()
	if len(labels) == 0 {
		return within, ""
	}
	domains := p.split(labels, within, within.path())
	if d, why, held := p.holdingOf(l, labels, domains); held {
		p.heldNone = p.heldNone || why != ""
		return d, why
	}
	if d := p.plannedIn(l, domains); d != nil {
		return d, ""
	}
	if len(domains) == 0 {
		return nil, fmt.Sprintf("%s must stay within one %s, and no node%s has that label", l,
			strings.Join(labels, ", "), within.where())
	}
	best, found := p.best(l, domains)
	if best != nil {
		return best, ""
	}
	return nil, fmt.Sprintf("%s must stay within one %s%s: the best, %s, has room for %d of the %d %s it needs", l,
		strings.Join(labels, ", "), within.where(), found.d.value, found.has, p.wants(l), l.of())
}

// of returns the things that a level needs a number of.
func (l level) of() string {
	if l.composite != nil {
		return "groups"
	}
	return "members"
}

// where says which domain it is.
func (d *domain) where() string {
	if len(d.labels) == 0 {
		return ""
	}
	return " of " + d.key()
}

// path is the key of a domain, "" for all nodes.
func (d *domain) path() string {
	if len(d.labels) == 0 {
		return ""
	}
	return d.key()
}

// holdingOf returns the domain in which members below the level have nodes. held is false if no member has a node. If
// members of a gang are in several domains, it returns the one with the most members, and of these the first. why is
// the reason if there is none, or if a composite is in several.
func (p *placement) holdingOf(l level, labels []string, domains []*domain) (d *domain, why string, held bool) {
	of := make(map[int]*domain, len(p.nodes))
	for _, each := range domains {
		for _, i := range each.indexes {
			of[i] = each
		}
	}
	counts := map[*domain]int{}
	outside := false
	for _, g := range l.gangs() {
		for _, m := range p.placedOf(g) {
			i, known := p.at[p.nodeOf(m)]
			held = true
			if each := of[i]; known && each != nil {
				counts[each]++
			} else {
				outside = true
			}
		}
	}
	if !held {
		return nil, "", false
	}
	for _, each := range domains {
		if counts[each] > 0 && (d == nil || counts[each] > counts[d]) {
			d = each
		}
	}
	one := strings.Join(labels, ", ")
	switch {
	case d == nil:
		return nil, fmt.Sprintf("%s must stay within one %s, and the nodes of its members have none", l, one), true
	case l.composite != nil && (outside || len(counts) > 1):
		return nil, fmt.Sprintf("%s must stay within one %s, and its members are in several", l, one), true
	}
	return d, "", true
}

// placedOf returns the members of a gang that hold nodes and keep them.
func (p *placement) placedOf(g *cluster.Group) (members []*cluster.Pod) {
	if g.Placed()+g.Waiting() == 0 && len(p.rehearsed) == 0 {
		return nil
	}
	for _, m := range g.Members() {
		if p.rehearsed[m] != "" || m.Stage != cluster.Pending && !m.Leaving() && !slices.Contains(p.released, m) {
			members = append(members, m)
		}
	}
	return members
}

// tried is the result of placing all gangs below a level in a domain.
type tried struct {
	d      *domain
	has    int   // how many members or groups it has of the ones that it needs
	enough bool  // it has as many as it needs
	pods   int64 // how many pods have nodes then
	filled int64 // how much of the domain is requested then, in parts of a hundred
}

// best returns the domain with room and the highest score; nil if there is none, and then that which comes nearest.
func (p *placement) best(l level, domains []*domain) (d *domain, nearest tried) {
	p.begin()
	var all []tried
	for i, each := range domains {
		t := p.try(l, each)
		if i == 0 || t.has > nearest.has {
			nearest = t
		}
		if t.enough && !(p.avoiding && p.avoidsBelow(l, each)) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil, nearest
	}
	return bestOf(all).d, nearest
}

// bestOf returns the result with the highest score. Ties go to the fewest nodes, and then to the first by value. The
// score is kube-scheduler's sum of two plugins. PodGroupPodsCount scores how many pods are placed, as a percentage of
// the most. NodeResourcesFit scores how much of the domain is requested then, as a percentage.
func bestOf(all []tried) tried {
	most := int64(1)
	for _, t := range all {
		most = max(most, t.pods)
	}
	score := func(t tried) int64 { return t.pods*100/most + t.filled }
	return slices.MinFunc(all, func(a, b tried) int {
		return cmp.Or(
			cmp.Compare(score(b), score(a)),
			cmp.Compare(len(a.d.indexes), len(b.d.indexes)),
			strings.Compare(a.d.value, b.d.value),
		)
	})
}

// avoidsBelow reports whether an attempt has failed in the domain.
func (p *placement) avoidsBelow(l level, d *domain) bool {
	key := d.key()
	return slices.ContainsFunc(l.gangs(), func(g *cluster.Group) bool {
		return g.Avoids(key) || g == p.g && key == p.failed
	})
}

// try places all that is below a level in a domain, and takes it off again.
func (p *placement) try(l level, d *domain) tried {
	p.begin()
	mark := p.packing.Placed()
	defer p.packing.TakeBack(mark)
	t := tried{d: d}
	t.has = p.fill(l, d)
	t.enough = t.has >= p.wants(l)
	t.pods = int64(p.packing.Placed() - mark)
	for _, g := range l.gangs() {
		t.pods += int64(len(p.placedOf(g)))
	}
	t.filled = p.filled(d)
	return t
}

// wants returns how many more members a gang needs, or how many groups a composite does.
func (p *placement) wants(l level) int {
	if l.composite != nil {
		return l.composite.Min()
	}
	counted := p.countedOf(l.gang)
	need := counted.Lacking(gang.OnNodes)
	if l.gang == p.g {
		need = max(1, need)
	}
	if l.gang == p.g || l.gang.NonStrict() {
		need = min(need, len(p.pods[l.gang]))
	}
	return max(0, need)
}

// fill places all gangs below a level in a domain of its own. It returns how many of the wanted ones are placed.
func (p *placement) fill(l level, d *domain) (has int) {
	if l.gang != nil {
		return p.fillGang(l, d)
	}
	gangs, composites := l.composite.Directly()
	for _, g := range gangs {
		if p.place(level{gang: g}, d) {
			has++
		}
	}
	for _, c := range composites {
		if p.place(level{composite: c}, d) {
			has++
		}
	}
	return has
}

// fillGang places the members of a gang in a domain. If the order of their names leaves too few with a node, the
// members that are hardest to place come first.
func (p *placement) fillGang(l level, d *domain) (has int) {
	pods, wanted, mark := p.pods[l.gang], max(p.wants(l), 0), p.packing.Placed()
	has = p.packing.Place(pods, d.indexes)
	if has >= wanted || len(pods) == 0 || p.packing.Uniform(pods) {
		return min(has, wanted)
	}
	p.packing.TakeBack(mark)
	if hardest := p.packing.PlaceHardestFirst(pods, d.indexes); hardest >= has {
		return min(hardest, wanted)
	}
	p.packing.TakeBack(mark)
	return min(p.packing.Place(pods, d.indexes), wanted)
}

// place places all that is below a level, in the best of its own domains within another one. It reports whether it has
// as many as it needs; otherwise it places nothing.
func (p *placement) place(l level, within *domain) bool {
	if l.gang != nil && (!l.gang.Declared() || l.gang.Refusal() != "") {
		return false
	}
	d := within
	if labels := l.required(); len(labels) > 0 {
		domains := p.split(labels, within, within.path())
		own, why, held := p.holdingOf(l, labels, domains)
		if !held {
			own, _ = p.best(l, domains)
		}
		if own == nil || why != "" {
			return false
		}
		d = own
	}
	if l.gang != nil {
		d = p.preferred(l.gang, d)
	}
	mark := p.packing.Placed()
	if p.fill(l, d) >= p.wants(l) {
		return true
	}
	p.packing.TakeBack(mark)
	return false
}

// filled returns how much of a domain is requested, as a percentage: the mean of the resources that the pods request.
func (p *placement) filled(d *domain) int64 {
	var sum, n int64
	for k, name := range p.packing.Resources() {
		if name == v1.ResourcePods {
			continue
		}
		requested, all := p.packing.Requested(k, d.indexes)
		if all > 0 {
			sum += cluster.Percent(requested, all)
			n++
		}
	}
	return sum / max(1, n)
}
