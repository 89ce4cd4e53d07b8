package restorecheck

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// say adds a line to a Machine's answers.
type say func(format string, args ...any)

// answers returns the Machine's answers to all possible questions, line by line.
func answers(m *scheduler.Machine) (lines []string) {
	s := say(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	d, ok := m.Decide(nil)
	wake, wakes := m.Wake()
	s("entry %d, epoch %d, %v, cycle %d", m.Seq(), m.Epoch(), m.Now(), m.Cycle())
	s("decides %v %+v", ok, d)
	s("wakes %v %v", wakes, wake)
	s("effects %+v", m.Effects())
	for _, e := range m.Queue().All() {
		s.entity(m.Queue(), e)
	}
	s("reservations %+v", m.Reservations())
	m.WaitingPods().Each(func(w *cluster.Wait) bool {
		s(
			"%s labels %v waits on %s for %v until %v, by entry %d",
			w.Pod.Object.Name,
			w.Pod.Object.Labels,
			w.Pod.Node,
			w.Plugins,
			w.Until,
			w.Seq,
		)
		return true
	})
	s("fallen %v", m.Cluster().Gangs().Fallen())
	for _, p := range m.Cluster().Pods().All() {
		s.pod(p)
	}
	nodes, _ := m.Cluster().Nodes().List()
	for _, n := range nodes {
		s.node(n)
	}
	resources := eventlog.Resources()
	for _, own := range framework.LoggedPluginResources(m.Config()) {
		resources = append(resources, own.Resource)
	}
	for _, res := range resources {
		for _, obj := range m.Cluster().Informers().List(res) {
			b, err := eventlog.AppendObject(nil, obj)
			s("%s %s/%s %x %v", res, obj.GetNamespace(), obj.GetName(), sha256.Sum256(b), err)
		}
	}
	return lines
}

func (s say) entity(q *queue.Queue, e *queue.Entity) {
	at, ok := q.RetryAt(e)
	refused, pending := e.RejectedBy()
	s(
		"%v %v priority %d, ahead %d, retry %v %v, owed %v",
		e.Key(),
		e.State(),
		e.Priority(),
		len(q.Ahead(e)),
		at,
		ok,
		e.Retryable(),
	)
	s(
		"  of %s, attempts %d, failed %v by %v %v, %d refusals, %d errors",
		e.Profile(),
		e.Attempts(),
		e.Failed(),
		refused,
		pending,
		e.GetUnschedulableCount(),
		e.GetConsecutiveErrorsCount(),
	)
	s("  first active %v, since %v %v, backoff until %v, gated by %q: %s", e.FirstActive(), e.Timestamp(), e.Since(),
		e.BackoffUntil(), e.GatingPlugin(), e.GatingMessage())
	for _, p := range e.Pending() {
		gate, why, _ := e.Gate(p.UID)
		s("  %s labels %v gates %v gated by %q: %s", p.Name, p.Labels, p.Spec.SchedulingGates, gate, why)
	}
}

func (s say) pod(p *cluster.Pod) {
	name := p.Object.Name
	s("%s is %s on %q since %v, volumes %v, leaving %v", name, p.Stage, p.Node, p.Since, p.Volumes, p.Leaving())
	g := p.Group
	if g == nil {
		return
	}
	priority, own := g.Priority()
	s("%s had its minimum: %v; %d ended well, %d leaving", g, g.Met(), g.Succeeded(), g.Leaving())
	s("%s is of %s: refused %q, declared %v, min %d of %d, %v %v with %v, priority %d %v", name, g, g.Refusal(),
		g.Declared(), g.Min(), g.Total(), g.Mode(), g.MatchPolicy(), g.Composite(), priority, own)
	s("  %d ready, %d waiting, %d assigned, %d placed", g.Ready(), g.Waiting(), g.Assigned(), g.Placed())
}

func (s say) node(n fwk.NodeInfo) {
	names := func(pods []fwk.PodInfo) (names []string) {
		for _, p := range pods {
			names = append(names, p.GetPod().Name+"@"+p.GetPod().Spec.NodeName)
		}
		return names
	}
	s("%s: %v of %v; %v %v %v", n.Node().Name, n.GetNonZeroRequested(), n.GetAllocatable(),
		names(n.GetPods()), names(n.GetPodsWithAffinity()), names(n.GetPodsWithRequiredAntiAffinity()))
	images := n.GetImageStates()
	for _, name := range slices.Sorted(maps.Keys(images)) {
		s("  %s %d on %d nodes", name, images[name].Size, images[name].NumNodes)
	}
}
