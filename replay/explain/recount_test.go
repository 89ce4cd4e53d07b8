package explain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// Each amount of room in an answer equals a naive count in the state of the entry beside it. For a decision that is the
// state before it, and else the state after the entry.
func TestEveryAmountIsThatOfTheEntryBesideIt(t *testing.T) {
	counted, kept, keptFromGangs, judged := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		lane := rapid.SampledFrom([]string{"", "", "StrictFIFO", "Backfill"}).Draw(rt, "lane")
		configuration := configurationOfHistories
		if lane != "" {
			configuration += "  pluginConfig:\n  - name: Coscheduling\n    args:\n      queuePolicy: " + lane + "\n"
		}
		s.Configure(configuration)
		s.Step("node n0 cpu=4 gpu=2")
		begins := rapid.IntRange(0, 3).Draw(rt, "begins with")
		if lane == "StrictFIFO" && begins > 1 {
			for _, step := range overtaking {
				s.Step(step)
			}
		}
		if lane != "StrictFIFO" && begins > 0 {
			s.Step("pod ml/low cpu=4 priority=1")
			s.Step("pod ml/vip cpu=3 priority=9")
			s.Step("delete pods ml/low")
		}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		last, err := s.Log().Last()
		if err != nil {
			rt.Fatal(err)
		}
		at := rapid.Uint64Range(1, last).Draw(rt, "at")
		for i := range 4 {
			x, err := explain.Group(context.Background(), wholeLog(s.Log()), "ml", fmt.Sprintf("g%d", i),
				explain.Options{AtSeq: at})
			if err != nil {
				continue // it is not there yet
			}
			c := &recount{t: rt, s: s, at: x.At, group: x.Group, lane: lane}
			c.answer(x)
			counted, keptFromGangs = counted+c.n, keptFromGangs+c.keeps
		}
		for _, p := range stateAt(rt, s, at).Cluster().Pods().All() {
			x, err := explain.Pod(context.Background(), wholeLog(s.Log()), p.Object.Namespace, p.Object.Name,
				explain.Options{AtSeq: at})
			if err != nil {
				rt.Fatal(err)
			}
			c := &recount{t: rt, s: s, at: x.At, group: x.Group, lane: lane}
			c.reason(x.Reason)
			c.decision(x.Decision)
			c.decision(x.StoppedBy)
			counted, kept, judged = counted+c.n, kept+c.keeps, judged+c.judged
		}
	})
	if counted < 100 || kept < 3 || keptFromGangs < 1 || judged < 20 {
		t.Errorf("only %d amounts were counted again, %d and %d of them beside room that is kept from pods and gangs, "+
			"and %d nodes judged", counted, kept, keptFromGangs, judged)
	}
}

// overtaking has a gang pass the first of its lane: it has nodes that are kept for both its members.
var overtaking = []string{"pod ml/full cpu=4 priority=20 node=n0", "node n1 cpu=4", "node n2 cpu=4",
	"pod ml/low-1 cpu=4 priority=1 node=n1", "pod ml/low-2 cpu=4 priority=1 node=n2",
	"group ml/g0 min=2 priority=5 preemptionPolicy=Never; pod ml/first-0 cpu=3 group=g0; pod ml/first-1 cpu=3 group=g0",
	"delete pods ml/first-1", "advance 1s",
	"group ml/g1 min=2 priority=5; pod ml/second-0 cpu=3 group=g1; pod ml/second-1 cpu=3 group=g1",
	"pod ml/first-2 cpu=3 group=g0", "delete pods ml/low-2"}

// stateAt returns the state after an entry.
func stateAt(t *rapid.T, s *transcripts.Player, seq uint64) *scheduler.Machine {
	m := scheduler.New(transcripts.Registry())
	for _, e := range s.Entries() {
		if e.Seq > seq {
			break
		}
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// recount counts again the room in an answer.
type recount struct {
	t     *rapid.T
	s     *transcripts.Player
	at    answer.Point // the entry that is asked about
	group string
	n     int
	lane  string
	keeps int // how many of the amounts leave out room that is kept

	judged int // on how many nodes what is left was held against what the cycle found
}

func (c *recount) answer(x *answer.Group) {
	if n := x.Needs; n != nil {
		if n.AsOf != x.At {
			c.t.Fatalf("what is needed is as of entry %d, asked was for %d", n.AsOf.Seq, x.At.Seq)
		}
		for _, u := range n.Resources {
			c.use(n.AsOf, u, true)
			c.keptFromGang(x, u)
		}
	}
	c.reason(x.Reason)
	c.decision(x.LastFailure)
	ready, waiting := 0, 0
	for _, p := range stateAt(c.t, c.s, x.At.Seq).Cluster().Pods().All() {
		switch name, _ := cluster.GroupName(p.Object); {
		case name.String() != x.Group:
		case p.Stage == cluster.Waiting:
			waiting++
		case p.Stage == cluster.Pending && len(p.Object.Spec.SchedulingGates) == 0 &&
			p.Object.DeletionTimestamp == nil:
			ready++
		}
	}
	if x.Counts.Waiting != waiting || x.Counts.Ready > ready {
		c.t.Fatalf("counts of %s: %+v, counted %d waiting, %d ready", x.Group, x.Counts, waiting, ready)
	}
}

func (c *recount) reason(x *answer.Reason) {
	if x == nil {
		return
	}
	for _, s := range x.Shortfall {
		c.shortfall(s, s.AsOf == c.at)
	}
	if x.Now == nil {
		return
	}
	if x.Now.Point != c.at {
		c.t.Fatalf("what holds now is as of entry %d, asked was for %d", x.Now.Seq, c.at.Seq)
	}
	for _, s := range x.Now.Shortfall {
		if s.AsOf != c.at {
			c.t.Fatalf("a shortfall of now is as of entry %d, asked was for %d", s.AsOf.Seq, c.at.Seq)
		}
		if x.Now.Found == 0 {
			c.shortfall(s, true)
		}
	}
}

func (c *recount) shortfall(s answer.Shortfall, after bool) {
	if len(s.Holders) == 0 && s.Allocatable == 0 {
		return // what the check itself found
	}
	if s.Of == "MinResources" || s.Of == "Unit" {
		return // other members count there
	}
	c.use(s.AsOf, s.ResourceUse, after)
}

func (c *recount) decision(d *answer.Decision) {
	if d == nil {
		return
	}
	c.nodes(d)
	for _, u := range d.Resources {
		c.use(d.Point, u, false)
		c.kept(d, u)
		for _, r := range d.Refusals {
			insufficient := r.Reason == "Insufficient "+string(u.Resource) && r.Nodes == int64(d.Nodes)
			if insufficient && u.LargestFree >= u.Needed {
				c.t.Fatalf("entry %d: %s is %s on all %d nodes, and it needs %d of %d that are free on %s", d.Seq,
					d.Pod, r.Reason, d.Nodes, u.Needed, u.LargestFree, u.LargestFreeNode)
			}
		}
	}
}

// kept counts again what is kept for nominated pods on the state that a decision was made on.
func (c *recount) kept(d *answer.Decision, u answer.ResourceUse) {
	m := stateAt(c.t, c.s, d.Seq-1)
	namespace, name, _ := strings.Cut(d.Pod, "/")
	pod := m.Cluster().Pods().Named(namespace, name)
	found := map[string]int64{}
	sum, partly := int64(0), false
	nodes, _ := m.Cluster().Nodes().List()
	for _, n := range nodes {
		allocatable, requested := cluster.AmountOn(n, u.Resource)
		left := max(0, allocatable-requested)
		for _, o := range m.Cluster().Pods().All() {
			e := m.Queue().Find(o.Object.UID)
			keeps := o != pod && o.Stage == cluster.Pending && m.NominatedNode(o.Object.UID) == n.Node().Name &&
				e != nil && e.State() != queue.Gated &&
				m.Cluster().Gangs().PriorityOf(o.Object) >= m.Cluster().Gangs().PriorityOf(pod.Object)
			if amount := min(left, o.Amount(u.Resource)); keeps && amount > 0 {
				partly = partly || amount < o.Amount(u.Resource)
				left -= amount
				sum += amount
				holder := types.NamespacedName{Namespace: o.Object.Namespace, Name: o.Object.Name}.String()
				if gang, ok := cluster.GroupName(o.Object); ok {
					holder = gang.String()
				}
				found[holder] += amount
			}
		}
	}
	forFirst := int64(0)
	for _, h := range u.KeptFor {
		if h.Pods == 0 && c.lane != "" {
			forFirst += h.Amount // what the cycle thinks of that shows on each node: see nodes
			found[h.Name] += h.Amount
		}
	}
	if u.Kept != sum+forFirst || !partly && len(u.KeptFor) != len(found) {
		c.t.Fatalf("entry %d, %s: of %s %d is kept, for %+v; counted %d for %v", d.Seq, d.Pod, u.Resource, u.Kept,
			u.KeptFor, sum, found)
	}
	if sum > 0 {
		c.keeps++
	}
}

// nodes runs the cycle of a decision again: no node is refused for its room that has enough which is not kept, and the
// one that is chosen has enough.
func (c *recount) nodes(d *answer.Decision) {
	m := stateAt(c.t, c.s, d.Seq-1)
	namespace, name, _ := strings.Cut(d.Pod, "/")
	pod := m.Cluster().Pods().Named(namespace, name)
	if pod == nil || pod.Stage != cluster.Pending {
		return
	}
	left, trace := explain.LeftFor(m, pod), &framework.Trace{}
	if decided, ok := m.Decide(trace); !ok || decided.UID != pod.Object.UID {
		c.t.Fatalf("entry %d cannot be decided again", d.Seq)
	}
	for _, n := range trace.Refused {
		forRoom := n.Plugin == names.NodeResourcesFit || n.Plugin == coscheduling.Name
		if c.judged++; forRoom && left[n.Node] {
			c.t.Fatalf("entry %d: %s is refused by %s on %s (%v), where enough is left for it", d.Seq, d.Pod, n.Plugin,
				n.Node, n.Reasons)
		}
	}
	if d.Node != "" && !left[d.Node] {
		c.t.Fatalf("entry %d: %s is placed on %s, where too little is left for it", d.Seq, d.Pod, d.Node)
	}
}

// keptFromGang counts again what is kept from all members of a gang that have no node, as of the entry asked about.
func (c *recount) keptFromGang(x *answer.Group, u answer.ResourceUse) {
	m := stateAt(c.t, c.s, x.At.Seq)
	g := m.Cluster().Gangs().Named("ml", strings.TrimPrefix(x.Group, "ml/"))
	asking := askingWith(m, g)
	sum, open := int64(0), int64(0)
	nodes, _ := m.Cluster().Nodes().List()
	for _, n := range nodes {
		allocatable, requested := cluster.AmountOn(n, u.Resource)
		for _, p := range g.Members() {
			if p.Stage == cluster.Waiting && p.Node == n.Node().Name {
				requested -= p.Amount(u.Resource)
			}
		}
		left, own := max(0, allocatable-requested), false
		for _, o := range m.Cluster().Pods().All() {
			e := m.Queue().Find(o.Object.UID)
			if o.Stage != cluster.Pending || m.NominatedNode(o.Object.UID) != n.Node().Name || e == nil {
				continue
			}
			own = own || slices.Contains(asking, o)
			if e.State() != queue.Gated && keepsFromAll(m, o, asking) {
				amount := min(left, o.Amount(u.Resource))
				left, sum = left-amount, sum+amount
			}
		}
		if !own {
			open += left
		}
	}
	forFirst := u.Kept - sum
	if forFirst < 0 || forFirst > 0 && c.lane == "" || forFirst > open && c.lane == "StrictFIFO" {
		c.t.Fatalf("entry %d, %s: of %s %d is kept, for %+v; counted %d, and %d on nodes that are not kept for it",
			x.At.Seq, x.Group, u.Resource, u.Kept, u.KeptFor, sum, open)
	}
	if u.Kept > 0 {
		c.keeps++
	}
}

// askingWith are the pods of a gang, and of the gangs admitted with it, that are neither bound nor being bound.
func askingWith(m *scheduler.Machine, g *cluster.Group) (asking []*cluster.Pod) {
	for _, p := range m.Cluster().Pods().All() {
		together := p.Group != nil && (p.Group == g || g.Composite() != nil && p.Group.Composite() == g.Composite())
		if together && (p.Stage == cluster.Waiting || p.Stage == cluster.Pending && p.MayBePlaced()) {
			asking = append(asking, p)
		}
	}
	return asking
}

// keepsFromAll reports whether a nominated pod, by its priority, keeps its room from all that ask.
func keepsFromAll(m *scheduler.Machine, o *cluster.Pod, asking []*cluster.Pod) bool {
	for _, p := range asking {
		if o == p || m.Cluster().Gangs().PriorityOf(o.Object) < m.Cluster().Gangs().PriorityOf(p.Object) {
			return false
		}
	}
	return len(asking) > 0
}

// use counts a resource again: after the entry, or on the state that its decision was made on.
func (c *recount) use(asOf answer.Point, u answer.ResourceUse, after bool) {
	c.n++
	var counts []string
	seqs := []uint64{asOf.Seq - 1}
	if after {
		seqs = []uint64{asOf.Seq, asOf.Seq - 1} // the entry asked about may be the decision itself
	}
	if after && asOf != c.at {
		c.t.Fatalf("an amount of entry %d is told as one of %d", asOf.Seq, c.at.Seq)
	}
	for _, seq := range seqs {
		for _, without := range []string{"", c.group} {
			allocatable, free, held := amounts(stateAt(c.t, c.s, seq), u.Resource, without)
			if allocatable == u.Allocatable && free == u.Free+u.Kept && holdersFit(u, held) {
				return
			}
			counts = append(counts, fmt.Sprintf("after entry %d: %d of %d free, held %v", seq, free, allocatable, held))
		}
	}
	c.t.Fatalf("asked at entry %d of %s: as of entry %d %+v\ncounted %v", c.at.Seq, c.group, asOf.Seq, u, counts)
}

// amounts adds up a resource over all nodes; members of the gang without that are held count as not there.
func amounts(m *scheduler.Machine, name v1.ResourceName, without string) (allocatable, free int64,
	held map[string]int64) {
	held = map[string]int64{}
	on := map[string]int64{}
	for _, p := range m.Cluster().Pods().All() {
		gang, isMember := cluster.GroupName(p.Object)
		if p.Node == "" || isMember && gang.String() == without && p.Stage == cluster.Waiting {
			continue
		}
		var amount int64
		if name == v1.ResourcePods {
			amount = 1
		}
		for _, container := range p.Object.Spec.Containers {
			if q, ok := container.Resources.Requests[name]; ok && name == v1.ResourceCPU {
				amount += q.MilliValue()
			} else if ok {
				amount += q.Value()
			}
		}
		on[p.Node] += amount
		holder := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}.String()
		if isMember {
			holder = gang.String()
		}
		if m.Cluster().Nodes().Object(p.Node) != nil {
			held[holder] += amount
		}
	}
	nodes, _ := m.Cluster().Nodes().List()
	for _, n := range nodes {
		q := n.Node().Status.Allocatable[name]
		there := q.Value()
		if name == v1.ResourceCPU {
			there = q.MilliValue()
		}
		allocatable += there
		free += max(0, there-on[n.Node().Name])
	}
	return allocatable, free, held
}

func holdersFit(u answer.ResourceUse, held map[string]int64) bool {
	var sum, told int64
	for _, amount := range held {
		sum += amount
	}
	for _, h := range u.Holders {
		if told += h.Amount; held[h.Name] != h.Amount {
			return false
		}
	}
	return told+u.OthersAmount == sum
}
