package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-sched/rollcall/engine/live"
)

// The descriptions of the metrics that are read when Prometheus asks.
var (
	pendingPods = prometheus.NewDesc("scheduler_pending_pods",
		"Pods and gangs in the queue: active, backoff, unschedulable, gated. A gang counts once.",
		[]string{"queue"}, nil)
	cacheSize = prometheus.NewDesc("scheduler_scheduler_cache_size",
		"Nodes and pods in the scheduler's state.", []string{"type"}, nil)
	stage = prometheus.NewDesc("rollcall_stage",
		"1 for the stage that the scheduler is in: recovering, syncing, scheduling, draining, ended.",
		[]string{"stage"}, nil)
	lastEntry   = prometheus.NewDesc("rollcall_log_last_entry", "Sequence number of the last durable entry.", nil, nil)
	watchEvents = prometheus.NewDesc("rollcall_watch_objects_total",
		"Objects that watches and lists brought, by resource and what became of them: upserted and deleted are "+
			"in the log, unchanged ones said nothing that scheduling reads, coalesced ones were taken together with "+
			"a later one, refused ones cannot be logged.", []string{"resource", "result"}, nil)
	watchLists = prometheus.NewDesc("rollcall_watch_lists_total",
		"How often all objects of a resource were listed.", []string{"resource"}, nil)
	effectCalls = prometheus.NewDesc("rollcall_effect_calls_total",
		"Calls to the API server that carry decisions out, by kind and answer.", []string{"call", "answer"}, nil)
	effectRetries = prometheus.NewDesc("rollcall_effect_retries_total", "Binds and evictions tried again.", nil, nil)
	effectReads   = prometheus.NewDesc("rollcall_effect_read_backs_total",
		"How often a pod was read after a doubtful answer.", nil, nil)
	effectsOpen = prometheus.NewDesc("rollcall_effects_outstanding",
		"Binds and evictions that are under way.", nil, nil)
	statusWrites = prometheus.NewDesc("rollcall_status_writes_total",
		"Statuses and events, by what became of them: written, standing (the API server said it already), "+
			"replaced (by a later one), failed.", []string{"result"}, nil)
	statusWaiting = prometheus.NewDesc("rollcall_status_waiting",
		"Statuses and events that are to be written.", nil, nil)
)

// Leading returns a collector that says whether this process leads. It is for a process that may be on standby, which
// has no other metrics of its own yet.
func Leading(leads func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rollcall_leading",
		Help: "1 if this process has the lease, or needs none; 0 on standby: it waits for the lease.",
	}, func() float64 {
		if leads() {
			return 1
		}
		return 0
	})
}

// Standby returns a collector that says which entry a process on standby has followed the log to; 0 for one that is not
// on standby.
func Standby(followed func() uint64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rollcall_standby_last_entry",
		Help: "Sequence number of the last entry that this process, on standby, has applied to its state; 0 if it is " +
			"not on standby, or follows no log yet.",
	}, func() float64 { return float64(followed()) })
}

// Describe implements prometheus.Collector.
func (x *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(x, ch) }

// Collect implements prometheus.Collector.
func (x *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{x.attempts, x.victims, x.entries, x.append, x.binds, x.evictions,
		x.placement} {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(lastEntry, float64(x.seq.Load()))
	gauge(cacheSize, float64(x.nodes.Load()), "nodes")
	gauge(cacheSize, float64(x.pods.Load()), "pods")
	if counts := x.queue.Load(); counts != nil {
		gauge(pendingPods, float64(counts.Active), "active")
		gauge(pendingPods, float64(counts.Backoff), "backoff")
		gauge(pendingPods, float64(counts.Unschedulable), "unschedulable")
		gauge(pendingPods, float64(counts.Gated), "gated")
	}
	if x.sources.Stage != nil {
		now := x.sources.Stage()
		for s := live.Recovering; s <= live.Ended; s++ {
			value := 0.0
			if s == now {
				value = 1
			}
			gauge(stage, value, s.String())
		}
	}
	x.collectWatch(counter)
	if x.sources.Effects != nil {
		counts := x.sources.Effects()
		for call, n := range counts.Calls { // any order: they are put into order by their labels
			counter(effectCalls, n, string(call.Kind), string(call.Answer))
		}
		counter(effectRetries, counts.Retries)
		counter(effectReads, counts.ReadBacks)
		gauge(effectsOpen, float64(counts.Outstanding))
	}
	if x.sources.Status != nil {
		counts := x.sources.Status()
		counter(statusWrites, counts.PodStatuses+counts.GroupStatuses+counts.Events, "written")
		counter(statusWrites, counts.Standing, "standing")
		counter(statusWrites, counts.Replaced, "replaced")
		counter(statusWrites, counts.Dropped, "dropped")
		counter(statusWrites, counts.Failed, "failed")
		gauge(statusWaiting, float64(counts.Waiting))
	}
}

func (x *Metrics) collectWatch(counter func(d *prometheus.Desc, value uint64, labels ...string)) {
	if x.sources.Watch == nil {
		return
	}
	w := x.sources.Watch()
	if w == nil {
		return
	}
	for res, c := range w.Counts() {
		counter(watchLists, c.Lists, string(res))
		counter(watchEvents, c.Upserted, string(res), "upserted")
		counter(watchEvents, c.Deleted, string(res), "deleted")
		counter(watchEvents, c.Unchanged, string(res), "unchanged")
		counter(watchEvents, c.Coalesced, string(res), "coalesced")
		counter(watchEvents, c.Refused, string(res), "refused")
	}
}
