// Package metrics counts what a running scheduler does, for Prometheus. A metric that kube-scheduler has too has its
// name and its labels; the others begin with rollcall_.
//
// Observe counts events of the scheduler's loop. The counts that watches, effects and statuses keep themselves are read
// when Prometheus asks.
//
// Start reading at New.
package metrics

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/kube/status"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Sources are read when Prometheus asks; a nil one is left out.
type Sources struct {
	Watch   func() *watch.Watch
	Effects func() effect.Counts
	Status  func() status.Counts
	Stage   func() live.Stage
}

// Metrics is a collector of Prometheus.
type Metrics struct {
	sources Sources

	attempts  *prometheus.CounterVec
	victims   prometheus.Histogram
	entries   *prometheus.CounterVec
	append    prometheus.Histogram
	binds     *prometheus.CounterVec
	evictions *prometheus.CounterVec
	placement prometheus.Histogram

	seq, nodes, pods atomic.Uint64
	queue            atomic.Pointer[queue.Counts]
	arrived          map[types.UID]time.Time // pods that have no node yet, by their first entry; of the loop
}

// maxArrived is the number of pods whose first entries are remembered for the time until they are bound.
const maxArrived = 200_000

// New returns a collector.
func New(sources Sources) *Metrics {
	return &Metrics{
		sources: sources,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "Decisions on pods, by result: scheduled, waiting (in Permit), unschedulable, error, evicted, " +
				"reserved.",
		}, []string{"result"}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_preemption_victims", Help: "Pods that a decision preempts.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_log_entries_total", Help: "Entries that this process made durable, by kind.",
		}, []string{"kind"}),
		append: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rollcall_log_append_entries", Help: "Entries that one append made durable.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		binds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_bind_results_total",
			Help: "Binds that ended, by what came of them: bound, conflict (the pod is gone, is another one or has " +
				"another node), failed.",
		}, []string{"outcome"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_eviction_results_total",
			Help: "What came of evictions: done (the API server has taken the deletion), gone (there was nothing " +
				"left to evict), refused (it is tried again), givenup (it was refused, and the pod stays), withdrawn " +
				"(nobody waited for the room any more). All but refused are the last result of an eviction.",
		}, []string{"outcome"}),
		placement: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_sli_duration_seconds",
			Help:    "Time from a pod's first entry to the entry that says that it is bound.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20),
		}),
		arrived: map[types.UID]time.Time{},
	}
}

// Observe counts the entries that have become durable, in the scheduler's loop.
func (x *Metrics) Observe(r engine.Ready) {
	m := r.State
	for _, c := range r.Commits {
		x.observe(m, c)
		x.seq.Store(c.Last())
	}
	x.pods.Store(uint64(m.Cluster().Pods().Len()))
	if nodes, err := m.Cluster().Nodes().List(); err == nil {
		x.nodes.Store(uint64(len(nodes)))
	}
	if q := m.Queue(); q != nil {
		counts := q.Counts()
		x.queue.Store(&counts)
	}
}

func (x *Metrics) observe(m *scheduler.Machine, c engine.Commit) {
	x.append.Observe(float64(len(c.Entries)))
	for i := range c.Entries {
		e := &c.Entries[i]
		x.entries.WithLabelValues(e.Kind().String()).Inc()
		switch p := e.Payload.(type) {
		case *eventlog.Decision:
			x.attempts.WithLabelValues(resultOf(p.Outcome)).Inc()
			if n := len(p.Victims); n > 0 && p.Outcome != eventlog.Evicted {
				x.victims.Observe(float64(n))
			}
		case *eventlog.Upserted:
			x.arrives(m, e.Time, p)
		case *eventlog.Deleted:
			delete(x.arrived, p.UID)
		case *eventlog.EvictResult:
			x.evictions.WithLabelValues(strings.ToLower(p.Outcome.String())).Inc()
		case *eventlog.BindResult:
			x.binds.WithLabelValues(strings.ToLower(p.Outcome.String())).Inc()
			if p.Outcome == eventlog.BindBound {
				x.placed(p.UID, e.Time)
			}
		}
	}
}

// arrives notes when a pod came that waits for a node.
func (x *Metrics) arrives(m *scheduler.Machine, at eventlog.Time, p *eventlog.Upserted) {
	if p.Resource != eventlog.Pods {
		return
	}
	pod, ok := p.Object.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.NodeName != "" {
		x.placed(pod.UID, at)
		return
	}
	if _, known := x.arrived[pod.UID]; !known && len(x.arrived) < maxArrived &&
		m.Cluster().Pods().Get(pod.UID) != nil &&
		m.Schedules(pod) {
		x.arrived[pod.UID] = at.Std()
	}
}

// placed notes that a pod is known to be bound, which its BindResult or the pod itself says.
func (x *Metrics) placed(uid types.UID, at eventlog.Time) {
	if came, ok := x.arrived[uid]; ok {
		x.placement.Observe(at.Std().Sub(came).Seconds())
		delete(x.arrived, uid)
	}
}

func resultOf(o eventlog.Outcome) string {
	switch o {
	case eventlog.Scheduled:
		return "scheduled"
	case eventlog.Waiting:
		return "waiting"
	case eventlog.Unschedulable:
		return "unschedulable"
	case eventlog.Evicted:
		return "evicted"
	case eventlog.Reserved:
		return "reserved"
	case eventlog.Asked:
		return "asked"
	default:
		return "error"
	}
}
