package topologycount_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

const (
	nodesRole topologycount.Role = iota
	podsRole
)

var (
	byZone = topologycount.Key{Label: v1.LabelTopologyZone}
	byNode = topologycount.Key{Label: v1.LabelHostname, EachNode: true}
)

// question counts the pods whose label has the value, and the nodes, on nodes without a taint.
type question struct {
	key, value string
	by         []topologycount.Key
}

func (q *question) selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{q.key: q.value})
}

func (q *question) counts(pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && q.selector().Matches(labels.Set(pod.Labels))
}

func (q *question) Adds(info fwk.PodInfo, to *topologycount.Parts) {
	for _, key := range q.by {
		if info == nil {
			to.Add(nodesRole, key, 1)
		} else if q.counts(info.GetPod()) {
			to.Add(podsRole, key, 1)
		}
	}
}

func (q *question) Admits(node *v1.Node, _ topologycount.Role) bool {
	return len(node.Spec.Taints) == 0
}

// world is nodes with pods that change, and a ledger that follows.
type world struct {
	fwk.Handle
	*rand.Rand
	tb     testing.TB
	nodes  []fwk.NodeInfo
	ledger *topologycount.Ledger

	tells   bool // which nodes have changed
	changed []int32
	version uint64 // of the list
	named   int    // the last number given
}

// ChangedSince implements framework.Changes.
func (w *world) ChangedSince(since framework.Mark) ([]int32, framework.Mark, bool) {
	now := framework.Mark{Version: w.version, Change: uint64(len(w.changed)), Valid: true}
	if !w.tells || !since.Valid || since.Version != now.Version {
		return nil, now, false
	}
	return w.changed[since.Change:], now, true
}

// newWorld has nodes in ten zones, without pods.
func newWorld(tb testing.TB, seed uint64, nodes int) *world {
	w := &world{tb: tb, Rand: rand.New(rand.NewPCG(seed, 28)), tells: seed%2 == 0}
	w.ledger = topologycount.ForProfile(w)
	for i := range nodes {
		w.nodes = append(w.nodes, newNode(fmt.Sprintf("node-%05d", i), i%10))
	}
	return w
}

func newNode(name string, zone int) *upstream.NodeInfo {
	info := upstream.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("zone-", zone)}}})
	return info
}

// place puts a pod with the label on a node. Its label "index" is its own.
func (w *world) place(at int, key, value string) {
	w.named++
	name := fmt.Sprint("p", w.named)
	w.put(at, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name),
		Labels: map[string]string{key: value, "index": name}}})
}

func (w *world) put(at int, pod *v1.Pod) {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.nodes[at].AddPodInfo(info)
	w.changed = append(w.changed, int32(at))
}

// remove takes the i-th pod off a node.
func (w *world) remove(at, i int) *v1.Pod {
	pod := w.nodes[at].GetPods()[i].GetPod()
	if err := w.nodes[at].RemovePod(klog.Background(), pod); err != nil {
		w.tb.Fatal(err)
	}
	w.changed = append(w.changed, int32(at))
	return pod
}

// ask returns the counts of a question, up to date.
func (w *world) ask(q *question) *topologycount.Counts {
	w.tb.Helper()
	if err := w.ledger.Update(w.nodes); err != nil {
		w.tb.Fatal(err)
	}
	key := []byte(fmt.Sprint(q.key, "=", q.value, q.by))
	c := w.ledger.Find(key)
	if c == nil {
		if err := w.ledger.Learn(q.selector()); err != nil {
			w.tb.Fatal(err)
		}
		c = w.ledger.Keep(key, q)
		for _, by := range q.by {
			c.AddColumn(nodesRole, by)
			c.AddColumn(podsRole, by)
		}
	}
	w.ledger.Use(c)
	return c
}

// app asks how many pods of the app there are by zone and by node.
func (w *world) app(name string) *topologycount.Counts {
	w.tb.Helper()
	return w.ask(&question{key: "app", value: name, by: []topologycount.Key{byZone, byNode}})
}

// check compares the counts with a count from the start.
func (w *world) check(where string, q *question) {
	w.tb.Helper()
	r := w.ask(q).Read(func(topologycount.Role) bool { return true })
	if !r.Surveys(w.nodes) {
		w.tb.Fatalf("%s: the nodes are not the ledger's", where)
	}
	domain := func(node *v1.Node, key topologycount.Key) (string, bool) {
		value, ok := node.Labels[key.Label]
		if ok && key.EachNode {
			value = node.Name
		}
		return value, ok
	}
	for i, key := range q.by {
		nodes, pods := map[string]int64{}, map[string]int64{}
		for _, info := range w.nodes {
			name, ok := domain(info.Node(), key)
			if !ok || !q.Admits(info.Node(), nodesRole) {
				continue
			}
			nodes[name]++
			for _, p := range info.GetPods() {
				if q.counts(p.GetPod()) {
					pods[name]++
				}
			}
		}
		for at, info := range w.nodes {
			in := r.Position(info).In(r.Columns[2*i].Topology)
			if in != r.Columns[2*i].Topology.Domains()[at] {
				w.tb.Fatalf("%s: node %d is in two domains", where, at)
			}
			name, ok := domain(info.Node(), key)
			got := [2]int64{r.Columns[2*i].At(in), r.Columns[2*i+1].At(in)}
			if want := [2]int64{nodes[name], pods[name]}; ok != (in != topologycount.Nowhere) || ok && got != want {
				w.tb.Fatalf("%s: by %v there are %v nodes and pods at node %d, not %v", where, key, got, at, want)
			}
		}
	}
}

// step is one thing that happens to the world.
func (w *world) step() {
	at := w.IntN(len(w.nodes))
	info := w.nodes[at]
	switch w.IntN(10) {
	case 0:
		w.named++
		node := newNode(fmt.Sprint("new-", w.named), w.IntN(3))
		w.nodes = slices.Insert(w.nodes, at, fwk.NodeInfo(node))
		w.version++
	case 1:
		if len(w.nodes) > 3 {
			w.nodes = slices.Delete(w.nodes, at, at+1)
			w.version++
		}
	case 2:
		node := info.Node().DeepCopy()
		switch w.IntN(4) {
		case 0:
			delete(node.Labels, v1.LabelTopologyZone)
		case 1:
			node.Labels[v1.LabelTopologyZone] = fmt.Sprint("zone-", w.IntN(12))
		case 2:
			node.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		default:
			node.Spec.Taints = nil
		}
		info.SetNode(node)
		w.changed = append(w.changed, int32(at))
	case 3:
		w.nodes[at] = info.Snapshot()
		w.changed = append(w.changed, int32(at))
	case 4, 5, 6:
		w.place(at, []string{"app", "tier"}[w.IntN(2)], fmt.Sprint(w.IntN(4)))
	default:
		if pods := len(info.GetPods()); pods > 0 {
			pod := w.remove(at, w.IntN(pods))
			if w.IntN(2) == 0 {
				pod = pod.DeepCopy()
				pod.DeletionTimestamp = &metav1.Time{}
				w.put(at, pod)
			}
		}
	}
}

// Whatever happens to nodes and pods, counting from the start gives the same counts.
func TestCountsAreThoseOfACountFromTheStart(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, 3+int(seed)%20)
		for step := range 60 {
			for range w.IntN(5) {
				w.step()
			}
			q := &question{key: []string{"app", "app", "tier"}[w.IntN(3)], value: fmt.Sprint(w.IntN(4)),
				by: []topologycount.Key{byZone, byNode}[:1+w.IntN(2)]}
			w.check(fmt.Sprintf("world %d, step %d", seed, step), q)
		}
	}
}

// A Reading stays as it was while the ledger changes, and trials change one clone only.
func TestAReadingStaysAsItWas(t *testing.T) {
	w := newWorld(t, 0, 20)
	w.place(3, "app", "web")
	r := w.app("web").Read(func(topologycount.Role) bool { return true })
	trial := r.Clone()
	trial.Change(w.nodes[3].Node(), 1, func(to *topologycount.Parts) { to.Add(podsRole, byZone, 1) })
	w.place(13, "app", "web")
	w.app("web")
	for _, c := range []struct {
		what string
		r    *topologycount.Reading
		want int64
	}{{"the reading", &r, 1}, {"the trial", &trial, 2}} {
		column := &c.r.Columns[1]
		if got := column.At(c.r.Position(w.nodes[3]).In(column.Topology)); got != c.want || c.r.Current() {
			t.Errorf("%s has %d pods, not %d, or is current", c.what, got, c.want)
		}
	}
}

// The ledger reads only nodes that have changed. It compares only new kinds of pods with a question, and counts all
// pods only for a question that was not asked before.
func TestOnlyWhatHasChangedIsLookedAt(t *testing.T) {
	w := newWorld(t, 0, 1000)
	app := "web"
	for _, c := range []struct {
		what                      string
		do                        func()
		looked, compared, counted int
	}{
		// The ledger is made again when the first selector is known.
		{"the first question", func() {}, 2000, 0, 1},
		{"the same again", func() {}, 0, 0, 0},
		{"a pod", func() { w.place(7, "app", app) }, 1, 1, 0},
		{"two pods on one node", func() { w.place(8, "app", app); w.place(8, "app", app) }, 1, 0, 0},
		{"the end of a pod", func() { w.remove(7, 0) }, 1, 0, 0},
		{"another app", func() { app = "db" }, 0, 1, 1},
		{"a pod of it", func() { w.place(9, "app", app) }, 1, 1, 0},
		{"the first again", func() { app = "web" }, 0, 1, 0},
		{"a node that comes first", func() {
			w.nodes = slices.Insert(w.nodes, 0, fwk.NodeInfo(newNode("a", 1)))
			w.version++
		}, 1, 0, 0},
		{"a node that goes", func() { w.nodes = slices.Delete(w.nodes, 0, 1); w.version++ }, 0, 0, 0},
		{"the last node goes", func() { w.nodes = w.nodes[:999]; w.version++ }, 0, 0, 0},
		{"one comes and another goes", func() { w.nodes = append(w.nodes[1:], newNode("z", 1)); w.version++ }, 1, 0, 0},
		{"copies of all nodes", func() {
			for i := range w.nodes {
				w.nodes[i] = w.nodes[i].Snapshot()
			}
			w.version++
		}, 0, 0, 0},
	} {
		c.do()
		looked, compared, counted := w.ledger.Costs()
		w.app(app)
		l, m, n := w.ledger.Costs()
		got, want := [3]int{l - looked, m - compared, n - counted}, [3]int{c.looked, c.compared, c.counted}
		if got != want {
			t.Errorf("%s: looked, compared and counted %v times, not %v", c.what, got, want)
		}
	}
}

// What 500 apps ask is remembered at a time, and what more of them ask is bounded in bytes.
func TestCountsAreBoundedInBytes(t *testing.T) {
	for _, c := range []struct{ nodes, apps, remembered, most int }{
		{1000, 500, 500, topologycount.MaxMemory},
		{20000, 350, 350, topologycount.MaxMemory},
		{50000, 150, 150, topologycount.MaxMemory},
		{500, 200, 100, 2 << 20},
	} {
		w := newWorld(t, 0, c.nodes)
		w.ledger.SetMaxMemory(c.most)
		for i := range c.apps {
			w.place(i, "app", fmt.Sprint(i))
		}
		for i := range c.apps {
			w.app(fmt.Sprint(i))
		}
		n, bytes := w.ledger.Counts()
		if bytes > c.most || n < c.remembered || c.remembered < c.apps && n == c.apps {
			t.Errorf("%d nodes: the counts of %d of %d apps take %d bytes", c.nodes, n, c.apps, bytes)
		}
		_, _, before := w.ledger.Costs()
		for i := c.apps - c.remembered; i < c.apps; i++ {
			w.app(fmt.Sprint(i))
		}
		if _, _, after := w.ledger.Costs(); after != before {
			t.Errorf("%d nodes: of %d apps %d had all pods counted again", c.nodes, c.remembered, after-before)
		}
	}
}

// The Counts that were not used for longest go first.
func TestTheLeastRecentlyUsedCountsGo(t *testing.T) {
	w := newWorld(t, 0, 10)
	w.ledger.SetMaxMemory(1) // the fewest there may be
	ask := func(app int) (counted int) {
		_, _, before := w.ledger.Costs()
		w.app(fmt.Sprint(app))
		_, _, after := w.ledger.Costs()
		return after - before
	}
	const least = topologycount.LeastCounts
	for i := range least {
		ask(i)
	}
	if n := ask(0); n != 0 {
		t.Fatalf("the first app had all pods counted %d times again", n)
	}
	ask(least) // one too many
	for _, c := range []struct{ app, counted int }{{0, 0}, {2, 0}, {least, 0}, {1, 1}, {3, 1}} {
		if n := ask(c.app); n != c.counted {
			t.Errorf("app %d had all pods counted %d times, not %d", c.app, n, c.counted)
		}
	}
}

// Topologies that no Counts count by are gone, and there are never many, whatever pods ask for.
func TestTopologiesAreBounded(t *testing.T) {
	w := newWorld(t, 0, 50)
	for i := range 1000 {
		w.ask(&question{key: "app", value: "web", by: []topologycount.Key{{Label: fmt.Sprint("job-", i)}}})
		if n := w.ledger.Topologies(); n > topologycount.MaxTopologies {
			t.Fatalf("after %d questions there are %d topologies", i+1, n)
		}
	}
	w.ledger.SetMaxMemory(1)
	for i := range topologycount.LeastCounts {
		w.app(fmt.Sprint(i))
	}
	if n := w.ledger.Topologies(); n != 2 {
		t.Errorf("there are %d topologies, not those of host names and zones", n)
	}
}

// Kinds of pods, domains and changes that are gone do not stay for ever.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	w := newWorld(t, 0, 0)
	const each = 100
	for round := range 40 {
		w.nodes = nil
		w.version++
		for i := range each {
			name := fmt.Sprint(round, "-", i)
			w.nodes = append(w.nodes, newNode(name, 0))
			w.place(i, "app", name)
		}
		w.app("web")
		const most = 3*each + topologycount.Slack
		if kinds, domains := w.ledger.Numbers(); kinds > most || domains > most+1 {
			t.Fatalf("round %d: there are %d kinds and %d domains", round, kinds, domains)
		}
		if n := w.ledger.Changes(); n > 3*topologycount.MinChanges {
			t.Fatalf("round %d: the journal has %d changes", round, n)
		}
	}
}

// When selectors name too many labels all of them count, and the counts stay right.
func TestManyLabels(t *testing.T) {
	w := newWorld(t, 0, 20)
	for i := range topologycount.MaxNames + 10 {
		key := fmt.Sprint("label-", i)
		w.place(i%20, key, "1")
		w.place((i+1)%20, "other", key)
		w.check(key, &question{key: key, value: "1", by: []topologycount.Key{byZone, byNode}})
	}
}
