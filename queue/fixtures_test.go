package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

const (
	sched = "default-scheduler"
	// epoch is a multiple of the flush period, so that tests can count from it.
	epoch = eventlog.Time(1_800_000_000_000_000_000)
	sec   = eventlog.Time(time.Second)
)

var (
	nodeAdd   = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	nodeLabel = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}
	podDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	wildcard  = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}
)

// tester are the methods of *testing.T and *rapid.T that the checks need.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

var (
	_ tester = (*testing.T)(nil)
	_ tester = (*rapid.T)(nil)
)

// gatePlugin is a PreEnqueue plugin: the pods in its set are kept out, with the message there.
type gatePlugin struct {
	name  string
	gated map[types.UID]string
	asked int
}

func (p *gatePlugin) Name() string { return p.name }

func (p *gatePlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	p.asked++
	if msg, ok := p.gated[pod.UID]; ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, msg)
	}
	return nil
}

// byPriority is the order of kube-scheduler's PrioritySort.
func byPriority(a, b fwk.QueuedEntityInfo) bool {
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// on registers an event with a hint; nil is no hint.
func on(ev fwk.ClusterEvent, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
	return fwk.ClusterEventWithHint{Event: ev, QueueingHintFn: hint}
}

// says is a hint that always answers the same.
func says(h fwk.QueueingHint, err error) fwk.QueueingHintFn {
	return func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return h, err }
}

// onlyFor is a hint that says Queue for the pods of that name.
func onlyFor(name string) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
		if pod.Name == name {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{SchedulerName: sched},
	}
}

func withPriority(pod *v1.Pod, p int32) *v1.Pod {
	pod.Spec.Priority = &p
	return pod
}

func podKey(name string) Key  { return fwk.PodKey("ns", name) }
func gangKey(name string) Key { return fwk.PodGroupKey("ns", name) }

// newQueue returns a queue whose default profile is p, with the time epoch.
func newQueue(t tester, p Profile, change ...func(*Options)) *Queue {
	t.Helper()
	opts := Options{Less: byPriority, Profiles: map[string]Profile{sched: p}}
	for _, c := range change {
		c(&opts)
	}
	q, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	q.SetTime(epoch)
	return q
}

// addGang adds n members, named g-0, g-1, …, to the gang g.
func addGang(q *Queue, g string, n int) Key {
	for i := range n {
		q.Add(gangKey(g), podNamed(fmt.Sprintf("%s-%d", g, i)))
	}
	return gangKey(g)
}

// fail begins an attempt for key and parks it for the plugins.
func fail(q *Queue, key Key, plugins ...string) {
	q.StartAttempt(key)
	q.Park(key, Failure{Plugins: plugins})
}

func wantState(t tester, q *Queue, key Key, want State) {
	t.Helper()
	e := q.Get(key)
	if e == nil {
		t.Fatalf("%v is not in the queue, want it %v", key, want)
	}
	if e.State() != want {
		t.Errorf("%v is %v, want %v", key, e.State(), want)
	}
	checkPlaces(t, q)
}

func wantHead(t tester, q *Queue, want string) {
	t.Helper()
	got := "none"
	if e := q.Head(); e != nil {
		got = e.Key().Name
	}
	if got != want {
		t.Errorf("the head is %s, want %s", got, want)
	}
}

func wantWake(t tester, q *Queue, want eventlog.Time) {
	t.Helper()
	got, ok := q.Wake()
	if ok != (want != 0) || ok && got != want {
		t.Errorf("Wake is %v %v, want %v", got, ok, want)
	}
}

// checkPlaces checks that every entity is in exactly the place of its state, and the indexes agree.
func checkPlaces(t tester, q *Queue) {
	t.Helper()
	found := map[*Entity][]State{}
	in := func(s State, es []*Entity) {
		for _, e := range es {
			found[e] = append(found[e], s)
		}
	}
	in(Active, q.active.items)
	in(Backoff, q.backoff.items)
	in(InFlight, q.flight)
	in(Unschedulable, q.retryable.all())
	for _, c := range q.alike {
		in(Unschedulable, c.entities)
	}
	for i, e := range q.early {
		if e.state != Backoff || !e.isEarly || !q.mayPopEarly(e) || i > 0 && q.compareEarly(q.early[i-1], e) >= 0 {
			t.Fatalf("%v, %v, is not to be attempted early, or out of order", e.key, e.state)
		}
	}
	early := 0
	lined := map[*Entity]bool{}
	var last *Entity
	for e := q.outside.first; e != nil; e = e.rest.after {
		if e.rest.in != &q.outside || e.state != Unschedulable && !(e.state == Gated && q.opts.GatesByTime) {
			t.Fatalf("%v, %v, is not to be flushed where nothing has changed", e.key, e.state)
		}
		if lined[e] = true; e.state == Gated {
			found[e] = append(found[e], Gated)
		}
	}
	for e := q.resting.first; e != nil; e = e.rest.after {
		if last != nil && (e.since < last.since || e.stamp < last.stamp || e.rest.before != last) {
			t.Fatalf("the line is out of order at %v", e.key)
		}
		lined[e], last = true, e
		if e.state == Gated {
			found[e] = append(found[e], Gated)
		}
	}
	if q.resting.last != last {
		t.Fatal("the line's end is not its last")
	}
	var counts Counts
	pods := 0
	for _, e := range q.sorted.all() {
		*counts.of(e.state)++
		if e.isEarly {
			early++
		}
		if e.isEarly != (e.state == Backoff && q.mayPopEarly(e)) {
			t.Fatalf("%v, %v, is among those to be attempted early: %v", e.key, e.state, e.isEarly)
		}
		where := found[e]
		if e.state == Placed {
			where = append(where, Placed)
		}
		if len(where) != 1 || where[0] != e.state {
			t.Fatalf("%v is %v but stands in %v", e.key, e.state, where)
		}
		want := e.state == Gated || e.state == Unschedulable && !e.retryable
		if lined[e] != want || e.isResting != want {
			t.Fatalf("%v, %v, owed %v: in line %v", e.key, e.state, e.retryable, lined[e])
		}
		if q.entities[e.key] != e || len(e.members) == 0 {
			t.Fatalf("%v: index or members are wrong", e.key)
		}
		checkMembers(t, q, e)
		pods += len(e.members)
	}
	if early != len(q.early) {
		t.Fatalf("%d entities may be attempted early, %d are in order", early, len(q.early))
	}
	if counts != q.Counts() {
		t.Fatalf("Counts %+v, counted %+v", q.Counts(), counts)
	}
	if len(q.entities) != len(q.sorted.all()) || len(q.byUID) != pods || len(q.byName) != pods {
		t.Fatal("an index has too much or too little")
	}
}

func checkMembers(t tester, q *Queue, e *Entity) {
	t.Helper()
	ready, gated, held := 0, 0, 0
	byPlugin := map[*plugin]int{}
	for _, m := range e.members {
		switch {
		case m.placed && m.gate != nil:
			t.Fatalf("%s is held and gated", m.pod.Name)
		case m.placed:
			held++
		case m.gate != nil:
			gated++
			byPlugin[m.gate]++
		default:
			ready++
		}
		if q.byUID[m.pod.UID] != m || m.entity != e {
			t.Fatalf("%s: wrong index", m.pod.Name)
		}
	}
	if ready != e.ready || gated != e.gated || held != e.placed {
		t.Fatalf("%v counts %d %d %d members, has %d %d %d", e.key, e.ready, e.gated, e.placed, ready, gated, held)
	}
	if len(byPlugin) != len(e.gates) {
		t.Fatalf("%v: %d gates for %d plugins", e.key, len(e.gates), len(byPlugin))
	}
	for _, g := range e.gates {
		if byPlugin[g.plugin] != g.members || g.plugin.gates[g.slot] != e {
			t.Fatalf("%v: wrong gate of %s", e.key, g.plugin.name)
		}
	}
}

// modelGate is a PreEnqueue plugin that reads a world.
type modelGate struct {
	name  string
	world *world
}

func (p *modelGate) Name() string { return p.name }

func (p *modelGate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.world.gated[pod.UID] == p.name {
		return fwk.NewStatus(fwk.Unschedulable, "gated by "+p.name)
	}
	return nil
}

// endsWith is a hint that says Queue for pods whose name ends so.
func endsWith(suffix string) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
		if strings.HasSuffix(pod.Name, suffix) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}

// oneLane is a policy with one lane, in which all pass.
type oneLane struct{ BestEffort }

// Lane implements LanePolicy.
func (*oneLane) Lane(*Entity) string { return "lane" }
