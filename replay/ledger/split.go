package ledger

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// maxSplits is the number of splits that are remembered.
const maxSplits = 24

// asks are the requests of the entity that waits. The cause of idle room depends on them and on the nodes.
type asks struct {
	kinds  []*kind // by key; nil if nobody waits who fits the nodes
	never  bool    // somebody waits who does not
	gang   bool
	labels []string // all nodes must have one value of each
	fixed  string   // the domain where members are; "" for the one with the most places
	// by and pod ask for room that is kept for others; zero while none is kept anywhere.
	by  queue.Key
	pod *cluster.Pod
}

// key tells asks apart.
func (a *asks) key() string {
	var parts []string
	for _, k := range a.kinds {
		parts = append(parts, k.key)
	}
	if a.gang {
		parts = append(parts, "gang")
	}
	return strings.Join(append(parts, strings.Join(a.labels, ","), a.fixed, string(a.by.Type), a.by.Namespace,
		a.by.Name), "\x00")
}

// share says why the idle amount of a node's resource is idle.
type share struct {
	amount, reserved, left int64 // by cause, kept for others, left beside the members that fit
	cause                  Column
	since                  eventlog.Time // of the split's clock: not booked since
}

// split divides the idle room of all nodes by cause, for one kind of waiting entities. Its clock of a resource runs
// while it is in charge of that. So a share is booked when its node changes, and a split that is needed visits only the
// nodes that changed since.
type split struct {
	asks
	b      *book
	clock  []eventlog.Time // by resource
	shares []share         // by node, then resource
	seen   uint64          // up to where in the journal
	used   uint64
	// A gang with a topology has the domain of each node, "" for none, the places there, the sums, and the choice.
	domain  []string
	room    []int64
	rooms   map[string]int64
	members map[string]int
	chosen  string
}

// splits are the splits that are remembered, and the ones in charge.
type splits struct {
	b      *book
	byKey  map[string]*split
	charge []*split // by resource
	tick   uint64
	stride int
}

func newSplits(b *book) splits { return splits{b: b, byKey: map[string]*split{}} }

// pass lets time pass.
func (s *splits) pass(d eventlog.Time) {
	for res, c := range s.charge {
		c.clock[res] += d
	}
}

// flush books all.
func (s *splits) flush() {
	// any order: each is booked by itself
	for _, x := range s.byKey {
		x.flushAll()
	}
}

// drop books all and forgets all splits.
func (s *splits) drop() {
	s.flush()
	clear(s.byKey)
	s.charge = nil
	s.stride = len(s.b.resources)
}

// choose puts, for each resource, the split for the first entity in charge that waits and requests it.
func (s *splits) choose() {
	if s.stride != len(s.b.resources) {
		s.drop()
	}
	s.tick++
	s.charge = s.charge[:0]
	for res := range s.stride {
		x := s.get(res)
		if x.used != s.tick {
			x.used = s.tick
			x.catchUp()
		}
		s.charge = append(s.charge, x)
	}
	for len(s.byKey) > max(maxSplits, 2*s.stride) {
		var oldest string
		least := s.tick + 1
		// any order: the least one is found
		for key, x := range s.byKey {
			if x.used < least {
				oldest, least = key, x.used
			}
		}
		s.byKey[oldest].flushAll()
		delete(s.byKey, oldest)
	}
}

// get returns the split for the first entity that waits for a resource.
func (s *splits) get(res int) *split {
	var a asks
	key := ""
	if w := s.b.line.first(res); w != nil {
		a, key = w.asking(s.b)
	} else if s.b.line.anyImpossible(res) {
		a.never, key = true, "never"
	}
	x := s.byKey[key]
	if x == nil {
		x = &split{asks: a, b: s.b, clock: make([]eventlog.Time, s.stride), rooms: map[string]int64{},
			members: map[string]int{}, chosen: a.fixed}
		s.byKey[key] = x
	}
	x.pod = a.pod
	return x
}

func (x *split) flushAll() {
	for i := range len(x.shares) / max(1, x.b.splits.stride) {
		x.flush(i)
	}
}

// flush books the shares of a node.
func (x *split) flush(i int) {
	stride := x.b.splits.stride
	to, bucket := x.b.nodes[i].row, x.b.bucket
	for res := range stride {
		s := &x.shares[i*stride+res]
		d := x.clock[res] - s.since
		s.since = x.clock[res]
		if d == 0 {
			continue
		}
		if s.amount > 0 {
			to.cell(bucket, res, s.cause).add(s.amount, d)
		}
		if s.reserved > 0 {
			to.cell(bucket, res, IdleReserved).add(s.reserved, d)
		}
		if s.left > 0 {
			to.cell(bucket, res, IdleFragmented).add(s.left, d)
		}
	}
}

// catchUp looks at the nodes that changed.
func (x *split) catchUp() {
	b, nodes := x.b, len(x.b.nodes)
	known := len(x.domain)
	for len(x.domain) < nodes {
		x.domain, x.room = append(x.domain, ""), append(x.room, 0)
	}
	for len(x.shares) < nodes*b.splits.stride {
		x.shares = append(x.shares, share{since: x.clock[len(x.shares)%b.splits.stride]})
	}
	changed := uint64(nodes)
	if x.seen >= b.journal.first {
		changed = b.journal.end() - x.seen
	}
	if known == 0 || changed >= uint64(nodes) {
		x.lookAtAll()
	} else {
		for _, place := range b.journal.places[x.seen-b.journal.first:] {
			x.lookAt(int(place))
		}
	}
	x.seen = b.journal.end()
	if best := x.roomiest(); best != x.chosen {
		x.chosen = best
		x.lookAtAll()
	}
}

func (x *split) lookAtAll() {
	for i := range x.b.nodes {
		x.lookAt(i)
	}
}

// lookAt books the shares of a node, and divides its idle room as it is now.
func (x *split) lookAt(i int) {
	x.flush(i)
	n, stride := x.b.nodes[i], x.b.splits.stride
	if len(x.labels) > 0 {
		x.measure(i, n)
	}
	for res := range stride {
		s := &x.shares[i*stride+res]
		since := s.since
		*s = x.divide(i, n, res)
		s.since = since
	}
}

// measure counts the places of a node for its domain.
func (x *split) measure(i int, n *node) {
	if x.domain[i] != "" {
		x.rooms[x.domain[i]] -= x.room[i]
		if x.members[x.domain[i]]--; x.members[x.domain[i]] == 0 {
			delete(x.members, x.domain[i])
			delete(x.rooms, x.domain[i])
		}
	}
	x.domain[i], x.room[i] = "", 0
	if n.obj == nil {
		return
	}
	x.domain[i] = domainOf(n.obj, x.labels)
	if x.domain[i] == "" {
		return
	}
	if !n.down {
		for _, k := range x.kinds {
			if k.refused(n.obj) == 0 {
				x.room[i] = max(x.room[i], x.b.places(k, n))
			}
		}
	}
	x.members[x.domain[i]]++
	x.rooms[x.domain[i]] += x.room[i]
}

// roomiest returns the domain that counts: the one where members are, or the one with the most places, of these the
// first.
func (x *split) roomiest() (best string) {
	if len(x.labels) == 0 || x.fixed != "" {
		return x.fixed
	}
	most := int64(-1)
	// any order: the first of the best is found
	for name, room := range x.rooms {
		if room > most || room == most && name < best {
			best, most = name, room
		}
	}
	return best
}

// divide says why the idle amount of a node's resource is idle.
func (x *split) divide(i int, n *node, res int) (s share) {
	free := n.idle(res)
	if free == 0 {
		return s
	}
	if s.amount, s.cause = free, x.nobody(); len(x.kinds) == 0 {
		return s
	}
	var takers []*kind
	all := 0
	for _, k := range x.kinds {
		if at(k.amounts, res) == 0 {
			continue
		}
		all++
		if cause := k.refused(n.obj); cause == 0 {
			takers = append(takers, k)
		} else if s.cause == IdleNobody {
			s.cause = cause
		}
	}
	if len(takers) == 0 {
		return s
	}
	if len(x.labels) > 0 && (x.domain[i] == "" || x.domain[i] != x.chosen) {
		s.cause = IdleOtherDomain
		return s
	}
	if n.kept {
		s.reserved = min(free, x.keptOn(n, res))
		s.amount -= s.reserved
	}
	least, fits := int64(0), false
	for _, k := range takers {
		if amount := k.amounts[res]; least == 0 || amount < least {
			least = amount
		}
		fits = fits || x.b.places(k, n) > 0
	}
	switch {
	case s.amount < least:
		s.cause = IdleFragmented
	case !fits:
		s.cause = IdleLacksOther
	default:
		s.cause = IdleUsable
		if x.gang && all == 1 {
			s.left = s.amount % least
			s.amount -= s.left
		}
	}
	return s
}

// nobody is the cause where no entity waits that fits the nodes.
func (x *split) nobody() Column {
	if x.never {
		return IdleImpossible
	}
	return IdleNobody
}

// keptOn returns how much of a resource is kept on a node for nominated pods of others.
func (x *split) keptOn(n *node, res int) (kept int64) {
	if x.pod == nil {
		return 0
	}
	for _, p := range x.b.m.KeptOn(n.name) {
		if p != nil && x.b.keyOf(p.Object.UID) != x.by && x.b.m.KeepsFrom(p, x.pod) {
			kept += p.Amount(x.b.resources[res])
		}
	}
	return kept
}

// domainOf names the domain of a node; "" if it lacks a label.
func domainOf(obj *v1.Node, labels []string) string {
	values := make([]string, len(labels))
	for i, label := range labels {
		value, ok := obj.Labels[label]
		if !ok {
			return ""
		}
		values[i] = label + "=" + value
	}
	return strings.Join(values, ";")
}

// levelsOf returns the labels of which a gang's nodes must have one value each: its own, and the ones of the
// CompositePodGroups above it.
func levelsOf(g *cluster.Group) []string {
	var labels []string
	for _, c := range g.Above() {
		labels = append(labels, c.Topology()...)
	}
	required, _ := g.Topology()
	labels = append(labels, required...)
	slices.Sort(labels)
	return slices.Compact(labels)
}

// fixedDomain returns the domain where most members of a gang are on nodes, of these the first; "" if none is.
func (b *book) fixedDomain(g *cluster.Group, labels []string) (best string) {
	counts := map[string]int{}
	for _, p := range g.Members() {
		if p.Stage == cluster.Pending || p.Leaving() {
			continue
		}
		if obj := b.m.Cluster().Nodes().Object(p.Node); obj != nil {
			if d := domainOf(obj, labels); d != "" {
				counts[d]++
			}
		}
	}
	// any order: the first of the best is found
	for d, n := range counts {
		if n > counts[best] || n == counts[best] && d < best {
			best = d
		}
	}
	return best
}
