package app

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// naiveBooks is the result of a naive reader of log cat that books resource-time. At every instant it visits all
// nodes and pods. It shares no code with the product. The worlds may have anything that test/worlds makes.
type naiveBooks struct {
	t      naiveReporter
	from   time.Time
	now    time.Time
	nodes  map[string]*v1.Node
	pods   map[string]*bookedPod // by UID
	claims map[string]bool       // namespace/name of volume claims
	gangs  map[string]*bookedGang
	evict  map[uint64]string // by decision: its outcome
	// capacity and held are by node, then resource; group has, by namespace and column, the time of one resource.
	capacity, held map[string]map[string]*big.Int
	of             string // the resource of the sums below
	group          map[string]map[string]*big.Int
	idle           map[string]*big.Int // by cause
	longest        map[string]time.Duration
	longestName    map[string]string
}

type bookedPod struct {
	obj     *v1.Pod
	node    string
	waiting bool // held by Permit
	bound   uint64
	asked   uint64 // the decision that evicts it
	ran     *big.Int
	active  time.Time // when it could be placed first
}

type bookedGang struct {
	name           string
	priority       int32
	minimum, ended int
	topology       string
	since, active  time.Time // since when it waits; when it had its members first
}

// bookedLine is a line of log cat.
type bookedLine struct {
	Seq                       uint64
	Time                      time.Time
	Kind, Resource, UID, Name string
	Outcome, Node             string
	Object                    json.RawMessage
	Decision                  json.RawMessage // of a Decision an object, of a result a number
}

type bookedDecision struct {
	UID, Outcome, Node         string
	Victims, Allowed, Rejected []string
}

func bookNaively(t naiveReporter, cat string, of string, from, to time.Time) *naiveBooks {
	b := &naiveBooks{t: t, of: of, nodes: map[string]*v1.Node{}, pods: map[string]*bookedPod{},
		claims: map[string]bool{},
		gangs:  map[string]*bookedGang{}, evict: map[uint64]string{}, capacity: map[string]map[string]*big.Int{},
		held: map[string]map[string]*big.Int{}, group: map[string]map[string]*big.Int{}, idle: map[string]*big.Int{},
		longest: map[string]time.Duration{}, longestName: map[string]string{}}
	for line := range strings.Lines(cat) {
		var e bookedLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if b.now.IsZero() {
			b.now, b.from = e.Time, e.Time
		}
		if e.Time.After(b.now) {
			b.lookAtGangs(to.IsZero() || !b.now.After(to))
		}
		begin, end := b.now, e.Time
		if !from.IsZero() && begin.Before(from) {
			begin = from
		}
		if !to.IsZero() && end.After(to) {
			end = to
		}
		if end.After(begin) {
			b.pass(end.Sub(begin))
		}
		b.now = e.Time
		b.take(&e)
	}
	b.lookAtGangs(to.IsZero())
	for _, p := range b.pods {
		b.end(p, "Deleted at the log's end")
	}
	return b
}

func (b *naiveBooks) take(e *bookedLine) {
	switch e.Kind {
	case "Upserted":
		b.upserted(e)
	case "Deleted":
		if p := b.pods[e.UID]; e.Resource == "pods" && p != nil {
			b.end(p, "Deleted")
			delete(b.pods, e.UID)
		}
		if e.Resource == "nodes" {
			delete(b.nodes, e.Name)
		}
	case "BindResult":
		p := b.pods[e.UID]
		by, _ := strconv.ParseUint(string(e.Decision), 10, 64) // a result without a number counts
		if p == nil || p.node != e.Node || by != 0 && by != p.bound {
			return
		}
		if e.Outcome == "Failed" || e.Outcome == "Conflict" {
			b.book(p, "lostFailed")
			p.node = ""
		}
	case "Decision":
		var d bookedDecision
		b.must(json.Unmarshal(e.Decision, &d))
		b.decided(e.Seq, &d)
	}
}

func (b *naiveBooks) must(err error) {
	if err != nil {
		b.t.Fatalf("%v", err)
	}
}

func (b *naiveBooks) decided(seq uint64, d *bookedDecision) {
	b.evict[seq] = d.Outcome
	p := b.pods[d.UID]
	if p != nil && (d.Outcome == "Scheduled" || d.Outcome == "Waiting") {
		p.node, p.waiting, p.bound = d.Node, d.Outcome == "Waiting", seq
	}
	for _, uid := range d.Allowed {
		if p := b.pods[uid]; p != nil {
			p.waiting, p.bound = false, seq
		}
	}
	for _, uid := range d.Rejected {
		if p := b.pods[uid]; p != nil {
			p.node, p.waiting = "", false
		}
	}
	for _, uid := range d.Victims {
		if p := b.pods[uid]; p != nil {
			p.asked = seq
		}
	}
}

func (b *naiveBooks) upserted(e *bookedLine) {
	switch {
	case e.Resource == "nodes":
		obj := &v1.Node{}
		b.must(json.Unmarshal(e.Object, obj))
		b.nodes[obj.Name] = obj
	case e.Resource == "pods":
		obj := &v1.Pod{}
		b.must(json.Unmarshal(e.Object, obj))
		uid := string(obj.UID)
		p := b.pods[uid]
		if obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed {
			if p != nil {
				p.obj = obj
				if g := b.gangOf(p); g != nil && obj.Status.Phase == v1.PodSucceeded {
					g.ended++
				}
				b.end(p, string(obj.Status.Phase))
				delete(b.pods, uid)
			}
			return
		}
		if p == nil {
			for other, old := range b.pods {
				if old.obj.Namespace == obj.Namespace && old.obj.Name == obj.Name {
					b.end(old, "Deleted")
					delete(b.pods, other)
				}
			}
			p = &bookedPod{ran: new(big.Int), active: b.now}
			b.pods[uid] = p
		}
		p.obj = obj
		if obj.Spec.NodeName != "" {
			p.node, p.waiting = obj.Spec.NodeName, false
		}
	case e.Resource == "persistentvolumeclaims":
		obj := &v1.PersistentVolumeClaim{}
		b.must(json.Unmarshal(e.Object, obj))
		b.claims[obj.Namespace+"/"+obj.Name] = true
	case e.Resource == "podgroups.scheduling.k8s.io" || strings.HasPrefix(e.Resource, "podgroups"):
		var o struct {
			Metadata struct {
				Namespace, Name string
				Annotations     map[string]string
			}
			Spec struct {
				Priority         int32
				SchedulingPolicy struct{ Gang struct{ MinCount int } }
			}
		}
		b.must(json.Unmarshal(e.Object, &o))
		name := o.Metadata.Namespace + "/" + o.Metadata.Name
		g := b.gangs[name]
		if g == nil {
			g = &bookedGang{name: name}
			b.gangs[name] = g
		}
		g.priority, g.minimum = o.Spec.Priority, o.Spec.SchedulingPolicy.Gang.MinCount
		g.topology = o.Metadata.Annotations["rollcall.dev/topology-required"]
	}
}

func (b *naiveBooks) gangOf(p *bookedPod) *bookedGang {
	if g := p.obj.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return b.gangs[p.obj.Namespace+"/"+*g.PodGroupName]
	}
	return nil
}

// requests returns the requests of a pod: cpu in thousandths, all others in units.
func requests(p *v1.Pod) map[string]int64 {
	return numbers(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
}

func numbers(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		if name == v1.ResourceCPU {
			out[string(name)] = q.MilliValue()
		} else if name != v1.ResourcePods {
			out[string(name)] = q.Value()
		}
	}
	return out
}

func addTo(sums map[string]map[string]*big.Int, row, cell string, amount int64, d time.Duration) {
	if amount == 0 {
		return
	}
	if sums[row] == nil {
		sums[row] = map[string]*big.Int{}
	}
	if sums[row][cell] == nil {
		sums[row][cell] = new(big.Int)
	}
	product := new(big.Int).Mul(big.NewInt(amount), big.NewInt(int64(d)))
	sums[row][cell].Add(sums[row][cell], product)
}

// pass books a time in which nothing changes.
func (b *naiveBooks) pass(d time.Duration) {
	used := map[string]map[string]int64{}
	for _, p := range b.pods {
		if b.nodes[p.node] == nil {
			continue
		}
		if used[p.node] == nil {
			used[p.node] = map[string]int64{}
		}
		for name, amount := range requests(p.obj) {
			used[p.node][name] += amount
			addTo(b.held, p.node, name, amount, d)
			if name != b.of {
				continue
			}
			addTo(b.group, p.obj.Namespace, "held", amount, d)
			if g := b.gangOf(p); p.waiting || g != nil && b.placedOf(g)+g.ended < g.minimum {
				addTo(b.group, p.obj.Namespace, "incomplete", amount, d)
			} else {
				p.ran.Add(p.ran, new(big.Int).Mul(big.NewInt(amount), big.NewInt(int64(d))))
			}
		}
	}
	first := b.first()
	for name, n := range b.nodes {
		for res, amount := range numbers(n.Status.Allocatable) {
			addTo(b.capacity, name, res, amount, d)
		}
		free := numbers(n.Status.Allocatable)[b.of] - used[name][b.of]
		if free <= 0 {
			continue
		}
		for cause, amount := range b.causes(n, free, numbers(n.Status.Allocatable), used[name], first) {
			if b.idle[cause] == nil {
				b.idle[cause] = new(big.Int)
			}
			b.idle[cause].Add(b.idle[cause], new(big.Int).Mul(big.NewInt(amount), big.NewInt(int64(d))))
		}
	}
}

func (b *naiveBooks) placedOf(g *bookedGang) (n int) {
	for _, p := range b.pods {
		if b.gangOf(p) == g && p.node != "" && !p.waiting && p.asked == 0 && p.obj.DeletionTimestamp == nil &&
			b.nodes[p.node] != nil {
			n++
		}
	}
	return n
}

func (b *naiveBooks) membersOf(g *bookedGang) (all []*bookedPod) {
	for _, p := range b.pods {
		if b.gangOf(p) == g && p.obj.DeletionTimestamp == nil && p.asked == 0 {
			all = append(all, p)
		}
	}
	return all
}

// end books the time of a pod that goes.
func (b *naiveBooks) end(p *bookedPod, how string) {
	as := "useful"
	reason := ""
	for _, c := range p.obj.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			reason = c.Reason
		}
	}
	on := b.nodes[p.node]
	switch {
	case p.asked != 0 && b.evict[p.asked] == "Evicted":
		as = "lostWithGang"
	case p.asked != 0:
		as = "lostPreempted"
	case how == "Failed":
		as = "lostFailed"
	case how == "Succeeded" || p.node == "":
	case on == nil, reason == "DeletionByTaintManager", reason == "EvictionByEvictionAPI" && on.Spec.Unschedulable:
		as = "lostFailed"
	}
	b.book(p, as)
}

func (b *naiveBooks) book(p *bookedPod, as string) {
	if p.ran.Sign() > 0 {
		addTo(b.group, p.obj.Namespace, as, 1, 0)
		if b.group[p.obj.Namespace][as] == nil {
			b.group[p.obj.Namespace][as] = new(big.Int)
		}
		b.group[p.obj.Namespace][as].Add(b.group[p.obj.Namespace][as], p.ran)
	}
	p.ran = new(big.Int)
}

// lookAtGangs finds out which gangs wait.
func (b *naiveBooks) lookAtGangs(within bool) {
	for _, g := range b.gangs {
		placed, members := b.placedOf(g), b.membersOf(g)
		waits := len(members)+g.ended >= g.minimum && placed+g.ended < g.minimum && placed < len(members)
		if waits && g.active.IsZero() {
			g.active = b.now
		}
		if len(members) == 0 {
			g.active = time.Time{}
		}
		switch {
		case waits && g.since.IsZero():
			g.since = b.now
		case !waits && !g.since.IsZero():
			if within {
				b.waited(g)
			}
			g.since = time.Time{}
		}
	}
}

func (b *naiveBooks) waited(g *bookedGang) {
	team, _, _ := strings.Cut(g.name, "/")
	if d := b.now.Sub(g.since); d > b.longest[team] {
		b.longest[team], b.longestName[team] = d, g.name
	}
}

// first returns the waiting gang that comes first, nil for none.
func (b *naiveBooks) first() (first *bookedGang) {
	for _, name := range slices.Sorted(maps.Keys(b.gangs)) {
		g := b.gangs[name]
		if g.since.IsZero() || b.isImpossible(g) {
			continue
		}
		if first == nil || g.priority > first.priority ||
			g.priority == first.priority && g.active.Before(first.active) {
			first = g
		}
	}
	return first
}

// causes says why a free amount of a node is idle.
func (b *naiveBooks) causes(n *v1.Node, free int64, there, used map[string]int64, g *bookedGang) map[string]int64 {
	down := slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable
	})
	for _, c := range n.Status.Conditions {
		down = down || c.Type == v1.NodeReady && c.Status != v1.ConditionTrue
	}
	if down {
		return map[string]int64{"unavailable": free}
	}
	if g == nil {
		if b.anyWaits() {
			return map[string]int64{"idleImpossible": free}
		}
		return map[string]int64{"idleNobody": free}
	}
	member := b.membersOf(g)[0].obj
	needs := requests(member)
	for key, value := range member.Spec.NodeSelector {
		if n.Labels[key] != value {
			if n.Spec.Unschedulable {
				break
			}
			return map[string]int64{"idleNotSelected": free}
		}
	}
	lacks := false
	for name, amount := range needs {
		lacks = lacks || name != b.of && there[name]-used[name] < amount
	}
	switch {
	case n.Spec.Unschedulable:
		return map[string]int64{"idleCordoned": free}
	case g.topology != "" && n.Labels[g.topology] != b.roomiest(g, needs):
		return map[string]int64{"idleOtherDomain": free}
	case free < needs[b.of]:
		return map[string]int64{"idleFragmented": free}
	case lacks:
		return map[string]int64{"idleLacksOther": free}
	}
	rest := free % needs[b.of]
	return map[string]int64{"idleUsable": free - rest, "idleFragmented": rest}
}

// roomiest returns the domain with the most places for members, of these the first.
func (b *naiveBooks) roomiest(g *bookedGang, needs map[string]int64) (best string) {
	rooms := map[string]int64{}
	for name, n := range b.nodes {
		down := len(b.causes(n, 1, nil, nil, nil)) > 0 && b.causes(n, 1, nil, nil, nil)["unavailable"] > 0
		rooms[n.Labels[g.topology]] += 0
		if down || n.Spec.Unschedulable {
			continue
		}
		there, least := numbers(n.Status.Allocatable), int64(1000)
		for _, p := range b.pods {
			if p.node == name {
				for res, amount := range requests(p.obj) {
					there[res] -= amount
				}
			}
		}
		for res, amount := range needs {
			least = min(least, max(0, there[res])/amount)
		}
		rooms[n.Labels[g.topology]] += least
	}
	for _, d := range slices.Sorted(maps.Keys(rooms)) {
		if best == "" || rooms[d] > rooms[best] {
			best = d
		}
	}
	return best
}
